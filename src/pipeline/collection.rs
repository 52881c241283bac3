//! DELETE of a collection: list, then admit and delete item by item, as kube-apiserver does.
//!
//! Each item goes upstream as a deletecollection of that one name, because the caller may have only that permission. The answer
//! is the list before the deletion (`Store.DeleteCollection`); the API server writes that list in the form that the client
//! accepts.

use super::delete::{
    Pinned, check_preconditions, completed, delete_body, delete_options, lost_the_version, names_a_version,
};
use super::deletion::{Deletion, admitted_states};
use super::gateway::Answer;
use super::outgoing::only_gzip;
use super::write::{Attempts, Write, is_conflict};
use super::{Exchange, negotiate, unknown_fields};
use crate::admission::Operation;
use crate::body::Body;
use crate::object::Object;
use crate::object::selector::escape_field_value;
use crate::request::accept::Agreed;
use crate::request::body::MediaType;
use crate::request::query::{integer, query_pairs, query_value};
use crate::status::Status;
use http::header::{ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, VARY};
use http::{HeaderMap, Response, StatusCode, Uri};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::sync::Arc;

/// The items of one page of the list: fewer than kube-apiserver's `deleteCollectionPageSize`, because the proxy reads them as
/// text.
const PAGE: usize = 500;
/// The factor by which a page shrinks if it has too many bytes.
const FEWER: usize = 8;
/// The highest number of undeleted items that a field selector excludes from the answer.
const MAX_SPARED: usize = 100;
/// The headers of the list that go to the client.
const HEADERS: [HeaderName; 4] = [CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, VARY];

/// A page of the list. The items are text, decoded one at a time.
#[derive(Deserialize)]
struct List<'a> {
    #[serde(default)]
    metadata: ListMetadata,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListMetadata {
    resource_version: String,
    #[serde(rename = "continue")]
    token: String,
}

impl<'a> List<'a> {
    fn read(page: &'a Answer) -> Result<Self, Status> {
        serde_json::from_slice(&page.body)
            .map_err(|error| Status::internal_error(format!("the answer of the API server is not a list: {error}")))
    }
}

/// The deletion of a collection in progress.
pub(super) struct DeleteCollection<'a> {
    pub(super) write: &'a Write<'a>,
}

impl DeleteCollection<'_> {
    /// Admits and deletes the objects of the collection; the first refusal ends the request.
    pub(super) async fn run(&self, exchange: &mut Exchange) -> Result<Response<Body>, Status> {
        self.check_numbers()?;
        let options = delete_options(self.write, exchange)?;
        let mut size = PAGE;
        let mut page = self.page("", &mut size).await?;
        self.admit_whole(&options, exchange).await?;
        // The resourceVersion of all pages.
        let ListMetadata { resource_version: version, mut token } = List::read(&page)?.metadata;
        let is_whole = token.is_empty() || self.limit().is_some();
        let shown = match is_whole && self.takes_it_as_it_is(&page) {
            true => Ok(page.clone().into_response()),
            // The list is opened before the first deletion, so that a list that cannot be shown prevents the deletion. Its body
            // is read after the last deletion.
            false => self.shown(&version, &[]).await,
        };
        let shown = match shown {
            // A collection whose list has no acceptable form is deleted all the same (`handlers.transformResponseObject`).
            Err(why) if why.code != StatusCode::NOT_ACCEPTABLE.as_u16() => return Err(why),
            shown => shown,
        };
        let mut spared = Vec::new();
        loop {
            for item in List::read(&page)?.items.into_iter().flatten() {
                let item: Object = serde_json::from_str(item.get()).map_err(|error| {
                    Status::internal_error(format!("an item of the list is not an object: {error}"))
                })?;
                let name = item.name().to_owned();
                match self.delete_item(&options, item, exchange).await? {
                    Item::Deleted => {}
                    Item::Gone => spared.push(name),
                    Item::Refused(refusal) => return self.write.respond(refusal).await,
                }
            }
            if token.is_empty() || self.limit().is_some() {
                break;
            }
            page = self.page(&token, &mut size).await?;
            token = List::read(&page)?.metadata.token;
        }
        let (list, body) = self.without(shown?, &version, &spared).await.into_parts();
        let headers =
            HEADERS.into_iter().filter_map(|name| list.headers.get(&name).cloned().map(|value| (name, value)));
        let mut response = Response::new(body);
        response.headers_mut().extend(headers);
        Ok(response)
    }

    /// Refuses empty numbers, which the query of a page leaves out; the API server refuses all other texts that are no numbers.
    fn check_numbers(&self) -> Result<(), Status> {
        for name in ["timeoutSeconds", "limit"] {
            if let Some(text) = query_value(self.write.parts.uri.query().unwrap_or_default(), name)
                && text.is_empty()
            {
                integer(&text).map_err(Status::bad_request)?;
            }
        }
        Ok(())
    }

    /// Returns the client's `limit`: only that many objects are deleted.
    fn limit(&self) -> Option<usize> {
        let limit = query_value(self.write.parts.uri.query().unwrap_or_default(), "limit")?;
        limit.parse().ok().filter(|limit| *limit > 0)
    }

    /// Reads a page of the selected objects, of `size` items. A page that is too large is read again with fewer items, unless the
    /// client has set a limit.
    async fn page(&self, token: &str, size: &mut usize) -> Result<Answer, Status> {
        let gateway = &self.write.pipeline.gateway;
        loop {
            let can_be_fewer = *size > 1 && self.limit().is_none();
            let bytes = if can_be_fewer { gateway.room.page_bytes() } else { gateway.response_bytes };
            let path = format!("{}?{}", self.write.parts.uri.path(), self.page_query(token, *size));
            let page = gateway.read_list(&path, bytes, self.write.caller).await?;
            match page {
                Some(page) => {
                    self.write.warnings.add_stored(&page.headers);
                    return Ok(page);
                }
                None if can_be_fewer => *size = (*size / FEWER).max(1),
                None => return Err(Status::internal_error("the list of the objects to delete is too large")),
            }
        }
    }

    /// Returns the query of a page: the first page has the request's parameters, the others continue from `token`.
    fn page_query(&self, token: &str, size: usize) -> String {
        if token.is_empty() {
            let limit = Some(self.own("limit")).filter(|limit| !limit.is_empty() && limit != "0");
            let limit = limit.unwrap_or_else(|| size.to_string());
            // The API server refuses invalid parameters.
            let more = ["continue", "resourceVersion", "resourceVersionMatch", "sendInitialEvents", "timeoutSeconds"];
            let more = more.map(|key| (key, self.own(key)));
            let more: Vec<_> = more.iter().map(|(key, value)| (*key, value.as_str())).collect();
            self.selectors(&[&[("limit", limit.as_str())], &*more].concat())
        } else {
            self.selectors(&[("limit", &size.to_string()), ("continue", token)])
        }
    }

    /// Returns a parameter of the request; empty if the request has no such parameter.
    fn own(&self, key: &str) -> String {
        query_value(self.write.parts.uri.query().unwrap_or_default(), key).unwrap_or_default()
    }

    fn agreed(&self) -> Option<Agreed> {
        negotiate::agree(
            &self.write.parts.headers,
            &self.write.parts.uri,
            &self.write.target,
            self.write.pipeline.media_types,
        )
    }

    /// Whether the page as the proxy reads it has the form that the client accepts.
    fn takes_it_as_it_is(&self, page: &Answer) -> bool {
        let plain = Agreed { media_type: MediaType::Json, is_pretty: false, converted: None };
        self.agreed() == Some(plain) && self.write.comes_plain(page.body.len())
    }

    /// Opens the list of this version without the `spared` objects, in the form that the client accepts. The body is not read
    /// yet: a list of any length streams to the client.
    async fn shown(&self, version: &str, spared: &[String]) -> Result<Response<Body>, Status> {
        let mut accepted = HeaderMap::new();
        for name in [ACCEPT, ACCEPT_ENCODING] {
            accepted.extend(self.write.parts.headers.get(&name).cloned().map(|value| (name, value)));
        }
        only_gzip(&mut accepted);
        let limit = self.limit().map(|limit| limit.saturating_sub(spared.len()));
        let path = format!("{}?{}", self.write.parts.uri.path(), self.shown_query(version, spared, limit));
        self.write.pipeline.gateway.open_list(&path, accepted, self.write.caller).await
    }

    fn shown_query(&self, version: &str, spared: &[String], limit: Option<usize>) -> String {
        let (limit, token) = (limit.map(|limit| limit.to_string()).unwrap_or_default(), self.own("continue"));
        // A continue token already determines the version.
        let (version, exact) = match token.is_empty() && !version.is_empty() {
            true => (version, "Exact"),
            false => ("", ""),
        };
        let is_pretty = self.agreed().is_some_and(|agreed| agreed.is_pretty);
        let spared = spared.iter().map(|name| format!("metadata.name!={}", escape_field_value(name)));
        let own = Some(self.own("fieldSelector")).filter(|own| !own.is_empty());
        self.selectors(&[
            ("fieldSelector", &own.into_iter().chain(spared).collect::<Vec<_>>().join(",")),
            ("limit", &limit),
            ("continue", &token),
            ("resourceVersion", version),
            ("resourceVersionMatch", exact),
            ("includeObject", &self.own("includeObject")),
            ("pretty", if is_pretty { "1" } else { "" }),
        ])
    }

    /// Returns the list for the client without the items that were not deleted.
    async fn without(&self, shown: Response<Body>, version: &str, spared: &[String]) -> Response<Body> {
        if spared.is_empty() {
            return shown;
        }
        if spared.len() <= MAX_SPARED
            && self.limit().is_none_or(|limit| limit > spared.len())
            && let Ok(shown) = self.shown(version, spared).await
        {
            return shown;
        }
        self.write.warnings.add("some of these objects were gone, or no longer selected, before they could be deleted");
        shown
    }

    /// Builds a query from the request's selectors and these parameters; empty parameters are left out.
    fn selectors(&self, more: &[(&str, &str)]) -> String {
        let own = query_pairs(self.write.parts.uri.query().unwrap_or_default());
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
        if self.write.pipeline.keeps_initializers {
            query.append_pair("includeUninitialized", "true");
        }
        query.finish()
    }

    /// Admits and deletes one item. After a conflict with the proxy's own resourceVersion, retries with the fresh item if the
    /// request still selects it.
    async fn delete_item(&self, options: &Object, mut item: Object, exchange: &mut Exchange) -> Result<Item, Status> {
        let mut attempts = Attempts::new(&self.write.pipeline.limits);
        loop {
            check_preconditions(self.write, options, &item, Deletion::OfCollection)?;
            let body = delete_body(options, &item, Pinned::Version)?;
            let name = item.name().to_owned();
            let old = Arc::new(self.with_kind(item));
            match self.admit_item(options, &old, exchange).await {
                Ok(()) => {}
                // `Store.DeleteCollection` goes on after every NotFound.
                Err(status) if status.reason == "NotFound" => return Ok(Item::Deleted),
                Err(status) => return Err(status),
            }
            let mut outgoing = self.write.outgoing(body);
            outgoing.uri = self.one_item_uri(&name)?;
            let mut answer = self.write.forward_for_json(outgoing.clone()).await?;
            if lost_the_version(&answer, options, &old) {
                outgoing.body = delete_body(options, &old, Pinned::Uid)?;
                answer = self.write.forward_for_json(outgoing).await?;
            }
            self.write.warnings.add_stored(&answer.headers);
            if answer.status.is_success() {
                let found_none = answer.object().is_ok_and(|list| list.get(&["items"]).is_some_and(is_empty));
                return Ok(if found_none { Item::Gone } else { Item::Deleted });
            }
            if answer.status == http::StatusCode::NOT_FOUND {
                return Ok(Item::Deleted);
            }
            let retry = is_conflict(&answer) && !names_a_version(options) && attempts.may_go_on(old.resource_version());
            if !retry {
                return Ok(Item::Refused(answer));
            }
            match self.fresh(&name).await? {
                Some(fresh) => item = fresh,
                None => return Ok(Item::Gone),
            }
        }
    }

    /// Admits the deletion as a whole, as Kubernetes did before it admitted each item.
    async fn admit_whole(&self, options: &Object, exchange: &mut Exchange) -> Result<(), Status> {
        let mut attributes = self.write.attributes(Operation::Delete, None, None, options.clone());
        attributes.annotations = exchange.annotations();
        let result = self.write.pipeline.chain.admit_collection(&mut attributes).await;
        exchange.publish(attributes.annotations.take());
        exchange.ended(&result, &attributes);
        result
    }

    async fn admit_item(&self, options: &Object, item: &Arc<Object>, exchange: &mut Exchange) -> Result<(), Status> {
        // The storage completes a copy of the options for each item (`Store.DeleteCollection`), which admission does not see.
        let kind = self.write.target.kind();
        let of_item = completed(kind, options, item, Deletion::OfCollection);
        for state in admitted_states(kind, &of_item, item, Deletion::OfCollection) {
            let mut attributes = self.write.attributes(Operation::Delete, None, Some(state), options.clone());
            attributes.of_collection = true;
            self.write.admit(&mut attributes, exchange).await?;
            self.write.validate(&mut attributes, exchange).await?;
        }
        Ok(())
    }

    /// Reads the object with this name; `None` if the request does not select it.
    async fn fresh(&self, name: &str) -> Result<Option<Object>, Status> {
        let list = self.write.pipeline.gateway.read(&self.one_item_uri(name)?.to_string(), self.write.caller).await?;
        Ok(list.and_then(|list| Object::from_value(list.items(&["items"]).first()?.clone())))
    }

    /// Adds the kind and the apiVersion, which an item of a list lacks, and removes the unknown fields.
    fn with_kind(&self, mut item: Object) -> Object {
        let kind = self.write.target.kind();
        for (field, value) in [("kind", kind.kind.clone()), ("apiVersion", kind.api_version())] {
            item.fields_mut().entry(field).or_insert_with(|| value.into());
        }
        unknown_fields::hide(self.write, &mut item);
        item
    }

    /// Returns the collection's URL with a selector for this name; the write options are in the body.
    fn one_item_uri(&self, name: &str) -> Result<Uri, Status> {
        // The client's selector stays, so that an item that has changed is deleted only if the request still selects it.
        let own = query_value(self.write.parts.uri.query().unwrap_or_default(), "fieldSelector").unwrap_or_default();
        let separator = if own.is_empty() { "" } else { "," };
        let selector = format!("{own}{separator}metadata.name={}", escape_field_value(name));
        let query = self.selectors(&[("fieldSelector", &selector)]);
        format!("{}?{query}", self.write.parts.uri.path()).parse().map_err(Status::internal_error)
    }
}

/// The result of the deletion of an item.
enum Item {
    /// The item was deleted.
    Deleted,
    /// The item no longer exists, or the request no longer selects it.
    Gone,
    /// The API server refused the deletion.
    Refused(Answer),
}

fn is_empty(items: &Value) -> bool {
    items.as_array().is_none_or(Vec::is_empty)
}
