//! `/debug/admission`: plugins, webhooks, policies, caches and seats of a tenant. It is made only when somebody asks, and each list is bounded.
//!
//! The path is the proxy's own: no API server has it.

use super::Pipeline;
use super::gateway::Caller;
use crate::authz::AccessAttributes;
use crate::body::{Body, full};
use crate::request::RequestInfo;
use crate::status::Status;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, Response};
use serde_json::{Map, Value, json};

/// The path of the page.
pub(crate) const LOOK: &str = "/debug/admission";

/// The fields that name an item, whose columns come first.
const NAMES: [&str; 4] = ["tenant", "name", "kind", "user"];

/// Who looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looked {
    /// The operator of the process, on its machine.
    ByOperator,
    /// A client with the permission to read the page.
    ByClient,
}

impl Pipeline {
    /// What the page shows. Clients of one of several tenants see nothing that tenants share: caches, webhooks, policies.
    pub(super) fn look(&self, looked: Looked, is_down: bool) -> Value {
        let is_whole = looked == Looked::ByOperator || self.tenant.name().is_none();
        let mut shown = json!({
            "tenant": self.tenant.name(),
            "upstreamDown": is_down,
            "plugins": self.chain.look(is_whole),
            "seats": self.in_flight.look(),
        });
        if let (Value::Object(shown), true) = (&mut shown, is_whole) {
            shown.insert("caches".to_owned(), self.cluster.look());
        }
        shown
    }

    /// Answers a client that may read the page. The API server decides whatever the authorization mode: it does not see the request.
    pub(super) async fn show(
        &self,
        headers: &HeaderMap,
        info: &RequestInfo,
        caller: &Caller,
    ) -> Result<Response<Body>, Status> {
        let attributes = AccessAttributes::from(info);
        let decision = self.authorizer.check(&caller.user, &attributes, caller.credentials.as_ref()).await;
        let decision = decision.map_err(crate::authz::unanswered)?;
        if !decision.allowed {
            return Err(attributes.forbidden(&caller.user, &decision.reason));
        }
        let (media_type, page) = page(headers, &self.look(Looked::ByClient, false));
        let mut response = Response::new(full(page));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'"));
        Ok(response)
    }
}

/// The media type and the text of a page: HTML for a browser, or else JSON.
pub(crate) fn page(headers: &HeaderMap, shown: &Value) -> (&'static str, String) {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    if accept.split([',', ';']).any(|part| part.trim() == "text/html") {
        let mut text = "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>Admission</title></head>\n<body>\n\
                        <h1>Admission</h1>\n"
            .to_owned();
        html(&mut text, shown);
        text.push_str("</body>\n</html>\n");
        return ("text/html; charset=utf-8", text);
    }
    ("application/json", format!("{shown:#}\n"))
}

/// Writes a value: objects and lists of objects as tables.
fn html(text: &mut String, value: &Value) {
    match value {
        Value::Object(fields) => match fields.get("items") {
            Some(Value::Array(items)) => list(text, items, fields.get("omitted").and_then(Value::as_u64)),
            _ => {
                text.push_str("<table>\n");
                for (name, value) in fields {
                    text.push_str("<tr><th align=\"left\" valign=\"top\">");
                    escape(text, name);
                    text.push_str("</th><td>");
                    html(text, value);
                    text.push_str("</td></tr>\n");
                }
                text.push_str("</table>\n");
            }
        },
        Value::Array(items) => list(text, items, None),
        Value::Null => text.push('-'),
        Value::String(value) => escape(text, value),
        other => text.push_str(&other.to_string()),
    }
}

/// Writes a list as a table with a column for each field that an item has.
fn list(text: &mut String, items: &[Value], omitted: Option<u64>) {
    let mut columns: Vec<&str> =
        NAMES.into_iter().filter(|name| items.iter().any(|item| item.get(name).is_some())).collect();
    for name in items.iter().filter_map(Value::as_object).flat_map(Map::keys) {
        if !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    text.push_str("<table border=\"1\">\n<tr>");
    for column in &columns {
        text.push_str("<th>");
        escape(text, column);
        text.push_str("</th>");
    }
    text.push_str("</tr>\n");
    for item in items {
        text.push_str("<tr>");
        for column in &columns {
            text.push_str("<td valign=\"top\">");
            html(text, item.get(column).unwrap_or(&Value::Null));
            text.push_str("</td>");
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</table>\n");
    if let Some(omitted) = omitted.filter(|omitted| *omitted > 0) {
        text.push_str(&format!("and {omitted} more\n"));
    }
}

fn escape(text: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            '\'' => text.push_str("&#39;"),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_gets_tables_in_which_texts_are_escaped() {
        let shown = json!({"tenant": "<script>", "plugins": {"items": [
            {"name": "A", "admit": {"calls": 1}},
            {"name": "B", "lastError": "\"&'"},
        ], "omitted": 3}});
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("text/html,*/*;q=0.8"))]);
        let (media_type, text) = page(&headers, &shown);
        assert_eq!(media_type, "text/html; charset=utf-8");
        assert!(
            !text.contains("<script>") && text.contains("&lt;script&gt;") && text.contains("&quot;&amp;&#39;"),
            "{text}"
        );
        assert!(
            text.contains("<th>name</th><th>admit</th><th>lastError</th>") && text.contains("and 3 more"),
            "{text}"
        );
        assert_eq!(page(&HeaderMap::new(), &shown), ("application/json", format!("{shown:#}\n")));
    }
}
