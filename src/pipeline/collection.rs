//! DELETE of a collection: list, then admit and delete item by item, as kube-apiserver does.
//!
//! Each item goes upstream as a deletecollection of that one name, since the caller may be allowed to do just that.

use super::Exchange;
use super::delete::{Deletion, completed, delete_body, names_a_version};
use super::gateway::{Answer, Page};
use super::write::{Write, is_conflict};
use crate::admission::Operation;
use crate::object::Object;
use crate::request::query::{query_pairs, query_value};
use crate::status::Status;
use crate::upstream::{Body, full};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Response, Uri};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Items of one page of the list (`--delete-collection` page size).
const PAGE: usize = 500;

impl Write<'_> {
    /// Admits and deletes the objects of the collection; the first refusal ends it.
    pub(super) async fn delete_collection(&self, exchange: &mut Exchange) -> Result<Response<Body>, Status> {
        let options = self.delete_options(exchange)?;
        let asks_for_one_page = self.asks_for_one_page();
        let mut deleted = DeletedItems::new(self.pipeline.limits.collection_bytes);
        let mut first = None;
        let mut next = Some(String::new());
        while let Some(token) = next.take() {
            let mut list = self.list(&token).await?;
            let token = list.pointer("/metadata/continue").and_then(Value::as_str).unwrap_or_default();
            next = (!token.is_empty() && !asks_for_one_page).then(|| token.to_owned());
            let items = list.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
            first.get_or_insert(list);
            for item in items {
                let item =
                    Object::from_value(item).ok_or_else(|| Status::internal_error("a list's item is no object"))?;
                let text = serde_json::to_vec(&item).map_err(Status::internal_error)?;
                match self.delete_item(&options, item, exchange).await? {
                    Item::Deleted => deleted.push(&text),
                    Item::Gone => {}
                    Item::Refused(refusal) => return Ok(refusal.into_response()),
                }
            }
        }
        // Its metadata is that of the first page (`Store.DeleteCollection`).
        let list = first.as_mut().and_then(Value::as_object_mut).map(std::mem::take).unwrap_or_default();
        if let Some(warning) = deleted.warning() {
            self.warnings.add(&warning);
        }
        let mut response = Response::new(full(deleted.into_list(list)?));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(response)
    }

    /// Who says how many wants just these.
    fn asks_for_one_page(&self) -> bool {
        let limit = query_value(self.parts.uri.query().unwrap_or_default(), "limit");
        limit.and_then(|limit| limit.parse().ok()).is_some_and(|limit: i64| limit > 0)
    }

    /// One page of what the request selects. One that is too large is asked for again with fewer items, unless it is the
    /// client that says how many.
    async fn list(&self, token: &str) -> Result<Value, Status> {
        let mut items = PAGE;
        loop {
            let path = format!("{}?{}", self.parts.uri.path(), self.page(token, items));
            match self.pipeline.gateway.read_page(&path, self.caller).await? {
                Page::Read(list, headers) => {
                    self.warnings.add_stored(&headers);
                    return Ok(list.into_value());
                }
                Page::TooLarge if items > 1 && !self.asks_for_one_page() => items /= 2,
                Page::TooLarge => return Err(Status::internal_error("what is to be deleted is too large to be read")),
            }
        }
    }

    /// The query of a page: the first is as the request says, the others are from `token` on.
    fn page(&self, token: &str, items: usize) -> String {
        let own = self.parts.uri.query().unwrap_or_default();
        if token.is_empty() {
            let limit = query_value(own, "limit").filter(|limit| !limit.is_empty() && limit != "0");
            let limit = limit.unwrap_or_else(|| items.to_string());
            // What makes no sense, the API server refuses.
            let more = ["continue", "resourceVersion", "resourceVersionMatch", "sendInitialEvents", "timeoutSeconds"];
            let more = more.map(|key| (key, query_value(own, key).unwrap_or_default()));
            let more: Vec<_> = more.iter().map(|(key, value)| (*key, value.as_str())).collect();
            self.selectors(&[&[("limit", limit.as_str())], &*more].concat())
        } else {
            self.selectors(&[("limit", &items.to_string()), ("continue", token)])
        }
    }

    /// The request's own selectors and these parameters; empty ones are left out.
    fn selectors(&self, more: &[(&str, &str)]) -> String {
        let own = query_pairs(self.parts.uri.query().unwrap_or_default());
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (key, value) in own {
            let is_replaced = more.iter().any(|(name, _)| *name == key);
            if matches!(&*key, "labelSelector" | "fieldSelector") && !is_replaced {
                query.append_pair(&key, &value);
            }
        }
        for (key, value) in more.iter().filter(|(_, value)| !value.is_empty()) {
            query.append_pair(key, value);
        }
        query.finish()
    }

    /// Admits and deletes one item. On a conflict that the client did not ask for, once more with the fresh one, if that is
    /// still one of the selected.
    async fn delete_item(&self, options: &Object, mut item: Object, exchange: &mut Exchange) -> Result<Item, Status> {
        let mut attempt = 0;
        loop {
            self.check_preconditions(options, &item)?;
            let body = delete_body(options, &item)?;
            let name = item.name().to_owned();
            let old = Arc::new(self.with_kind(item));
            let shown = completed(self.target.kind(), options, &old, Deletion::OfCollection);
            let mut attributes = self.attributes(Operation::Delete, None, Some(old), shown);
            let admitted = match self.admit(&mut attributes, exchange).await {
                Ok(()) => self.validate(&mut attributes, exchange).await,
                refused => refused,
            };
            match admitted {
                Ok(()) => {}
                // `Store.DeleteCollection` goes on after whatever is NotFound.
                Err(status) if status.reason == "NotFound" => return Ok(Item::Deleted),
                Err(status) => return Err(status),
            }
            let mut outgoing = self.outgoing(body);
            outgoing.method = Method::DELETE;
            outgoing.uri = self.one_item_uri(&name)?;
            let answer = self.forward_for_json(outgoing).await?;
            self.warnings.add_stored(&answer.headers);
            attempt += 1;
            if answer.status.is_success() {
                let found_none = answer.object().is_ok_and(|list| list.get(&["items"]).is_some_and(is_empty));
                return Ok(if found_none { Item::Gone } else { Item::Deleted });
            }
            if answer.status == http::StatusCode::NOT_FOUND {
                return Ok(Item::Deleted);
            }
            let retry =
                is_conflict(&answer) && !names_a_version(options) && attempt < self.pipeline.limits.conflict_retries;
            if !retry {
                return Ok(Item::Refused(answer));
            }
            match self.fresh(&name).await? {
                Some(fresh) => item = fresh,
                None => return Ok(Item::Gone),
            }
        }
    }

    /// The object of this name, if it is one of the selected.
    async fn fresh(&self, name: &str) -> Result<Option<Object>, Status> {
        let list = self.pipeline.gateway.read(&self.one_item_uri(name)?.to_string(), self.caller).await?;
        Ok(list.and_then(|list| Object::from_value(list.items(&["items"]).first()?.clone())))
    }

    /// A list's item, which does not say of itself what it is.
    fn with_kind(&self, mut item: Object) -> Object {
        let kind = self.target.kind();
        for (field, value) in [("kind", kind.kind.clone()), ("apiVersion", kind.api_version())] {
            item.fields_mut().entry(field).or_insert_with(|| value.into());
        }
        item
    }

    /// The collection's URL, selecting just this name; the write options are in the body.
    fn one_item_uri(&self, name: &str) -> Result<Uri, Status> {
        // An item that changed meanwhile is deleted only if it is still one of the selected.
        let own = query_value(self.parts.uri.query().unwrap_or_default(), "fieldSelector").unwrap_or_default();
        let separator = if own.is_empty() { "" } else { "," };
        let selector = format!("{own}{separator}metadata.name={}", escaped(name));
        let query = self.selectors(&[("fieldSelector", &selector)]);
        format!("{}?{query}", self.parts.uri.path()).parse().map_err(Status::internal_error)
    }
}

/// The items that were deleted, for the answer: as the text that they are there, and no more of it than there is room.
struct DeletedItems {
    text: Vec<u8>,
    max_bytes: usize,
    shown: usize,
    left_out: usize,
}

impl DeletedItems {
    fn new(max_bytes: usize) -> Self {
        Self { text: Vec::new(), max_bytes, shown: 0, left_out: 0 }
    }

    /// Once there is no room for one, all the others are left out too.
    fn push(&mut self, item: &[u8]) {
        if self.left_out > 0 || self.text.len() + item.len() >= self.max_bytes {
            self.left_out += 1;
            return;
        }
        if self.shown > 0 {
            self.text.push(b',');
        }
        self.text.extend_from_slice(item);
        self.shown += 1;
    }

    /// What the client is told, if it does not get to see all of them.
    fn warning(&self) -> Option<String> {
        let (shown, all) = (self.shown, self.shown + self.left_out);
        (self.left_out > 0)
            .then(|| format!("{all} objects were deleted; the answer has room for the first {shown} of them"))
    }

    /// A list with these fields and the items.
    fn into_list(self, mut fields: Map<String, Value>) -> Result<Vec<u8>, Status> {
        fields.remove("items");
        let mut list = serde_json::to_vec(&fields).map_err(Status::internal_error)?;
        list.pop();
        list.extend_from_slice(if fields.is_empty() { b"\"items\":[" } else { b",\"items\":[" });
        list.extend(self.text);
        list.extend_from_slice(b"]}");
        Ok(list)
    }
}

/// What became of an item.
enum Item {
    /// It was deleted.
    Deleted,
    /// There was nothing left to delete.
    Gone,
    /// The API server refused.
    Refused(Answer),
}

/// A value in a field selector (`fields.EscapeValue`): roles may have names with commas.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=")
}

fn is_empty(items: &Value) -> bool {
    items.as_array().is_none_or(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::query::exact_field;
    use serde_json::json;

    #[test]
    fn what_was_deleted_takes_a_bounded_room() {
        let of = |max_bytes| {
            let mut deleted = DeletedItems::new(max_bytes);
            [json!({"n": 10}), json!({"n": 200}), json!({"n": 3})]
                .iter()
                .for_each(|item| deleted.push(item.to_string().as_bytes()));
            let warning = deleted.warning();
            let list = deleted.into_list(Map::from_iter([("kind".into(), "List".into())])).unwrap();
            (serde_json::from_slice::<Value>(&list).unwrap(), warning)
        };
        let all = json!({"kind": "List", "items": [{"n": 10}, {"n": 200}, {"n": 3}]});
        assert_eq!(of(1000), (all, None));
        let warning = "3 objects were deleted; the answer has room for the first 1 of them".to_owned();
        // Not the third either, though it would fit.
        assert_eq!(of(17), (json!({"kind": "List", "items": [{"n": 10}]}), Some(warning)));
        let nothing = DeletedItems::new(0).into_list(Map::new()).unwrap();
        assert_eq!(nothing, br#"{"items":[]}"#);
    }

    #[test]
    fn a_name_selects_just_itself() {
        for name in ["plain", "a,metadata.name!=b", r"a\,b==c\"] {
            let selector = format!("metadata.name={}", escaped(name));
            assert_eq!(exact_field(&selector, "metadata.name"), Some(Some(name.to_owned())), "{selector}");
        }
    }
}
