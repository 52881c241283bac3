//! Lists pods at the API server page by page. The reads are too rare to justify a watch of all pods.

use super::live::segment;
use super::{CallError, Cluster};
use crate::object::Object;
use crate::status::Status;
use serde::Deserialize;
use serde_json::Value;

/// The number of pods on a page.
const PAGE: usize = 500;

/// A page of a namespace's pods.
#[derive(Debug, Default)]
pub(crate) struct PodPage {
    pub(crate) pods: Vec<Object>,
    /// The continue token of the next page, if there is one.
    pub(crate) next: Option<String>,
    /// The number of pods on the following pages.
    pub(crate) remaining: usize,
}

/// The fields of a PodList that are read.
#[derive(Deserialize)]
struct PodList {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default)]
    items: Vec<Value>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    r#continue: Option<String>,
    remaining_item_count: Option<usize>,
}

impl Cluster {
    /// Reads a page of the namespace's pods from the API server: the first page, or the page of the continue token `next`.
    ///
    /// # Errors
    /// If the API server is unreachable or refuses the request.
    pub(crate) async fn live_pods(&self, namespace: &str, next: Option<&str>) -> Result<PodPage, Status> {
        let request = http::Request::get(page_path(namespace, next)).body(Vec::new());
        let request = request.map_err(|_| Status::bad_request("no list of this namespace can be asked for"))?;
        let text = self.call(self.client()?.request_text(request)).await.map_err(CallError::into_status)?;
        read(&text).ok_or_else(|| Status::internal_error("the API server's list of pods cannot be read"))
    }
}

fn page_path(namespace: &str, next: Option<&str>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("limit", &PAGE.to_string());
    if let Some(next) = next {
        query.append_pair("continue", next);
    }
    format!("/api/v1/namespaces/{}/pods?{}", segment(namespace), query.finish())
}

fn read(text: &str) -> Option<PodPage> {
    let list: PodList = serde_json::from_str(text).ok()?;
    let next = list.metadata.r#continue.filter(|token| !token.is_empty());
    // The API server may omit the number of remaining pods.
    let remaining = list.metadata.remaining_item_count.unwrap_or(0).max(usize::from(next.is_some()));
    Some(PodPage { pods: list.items.into_iter().map(Object::from_value).collect::<Option<_>>()?, next, remaining })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_for_the_page_that_the_last_one_named() {
        assert_eq!(page_path("n", None), "/api/v1/namespaces/n/pods?limit=500");
        assert_eq!(page_path("n", Some("a=&b")), "/api/v1/namespaces/n/pods?limit=500&continue=a%3D%26b");
        assert_eq!(page_path("n?x#y", None), "/api/v1/namespaces/n%3Fx%23y/pods?limit=500");
    }

    #[test]
    fn reads_of_a_list_what_is_needed() {
        let text = r#"{"kind": "PodList", "metadata": {"continue": "abc", "remainingItemCount": 7}, "items": [{"metadata": {"name": "a"}}]}"#;
        let page = read(text).unwrap();
        assert_eq!(
            (page.pods.len(), page.pods[0].name(), page.next.as_deref(), page.remaining),
            (1, "a", Some("abc"), 7)
        );
        let last = read(r#"{"metadata": {"continue": ""}, "items": []}"#).unwrap();
        assert_eq!((last.pods.len(), last.next, last.remaining), (0, None, 0));
        let silent = read(r#"{"metadata": {"continue": "abc"}, "items": []}"#).unwrap();
        assert_eq!(silent.remaining, 1);
        assert!(read(r#"{"items": ["text"]}"#).is_none() && read("<html>").is_none());
    }
}
