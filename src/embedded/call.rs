//! One request on a resource, as far as method, URL and headers tell.

use super::Limits;
use super::catalog::Resource;
use super::negotiate::Form;
use super::store::{self, Collection, Store};
use crate::request::body::{OptionsKind, WriteOptions};
use crate::request::{RequestInfo, query};
use crate::status::Status;
use crate::user::UserInfo;
use bytes::Bytes;
use http::Uri;
use std::sync::Arc;

/// A request on a resource of the catalog.
pub struct Call {
    /// Where the objects are.
    pub store: Arc<Store>,
    /// The server's bounds.
    pub limits: Limits,
    /// What the URL says.
    pub info: RequestInfo,
    /// The resource it is about.
    pub resource: &'static Resource,
    /// The URL.
    pub uri: Uri,
    /// Who calls.
    pub caller: UserInfo,
    /// How the answer is to look.
    pub form: Form,
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// The body; empty for reads.
    pub body: Bytes,
}

impl Call {
    /// The namespace that the request is confined to; empty for none, and for kinds without namespaces.
    pub fn namespace(&self) -> &str {
        if self.resource.namespaced { &self.info.namespace } else { "" }
    }

    /// The collection of the resource.
    pub fn collection(&self) -> Collection {
        self.resource.collection()
    }

    /// The key of the object that the URL names.
    pub fn key(&self) -> String {
        store::key(self.namespace(), &self.info.name)
    }

    /// The first value of a query parameter.
    pub fn parameter(&self, name: &str) -> Option<String> {
        query::query_value(self.query(), name)
    }

    /// A query parameter, `None` if it is missing or empty.
    pub fn text(&self, name: &str) -> Option<String> {
        self.parameter(name).filter(|value| !value.is_empty())
    }

    /// A query parameter that is a flag, as `runtime.Convert_Slice_string_To_bool` reads it: anything but `false` and
    /// `0` is yes.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.parameter(name).map(|value| !(value == "0" || value.eq_ignore_ascii_case("false")))
    }

    /// A query parameter that is a whole number; an empty one is 0.
    ///
    /// # Errors
    /// When it is none.
    pub fn number(&self, name: &str) -> Result<Option<i64>, Status> {
        let Some(text) = self.parameter(name) else { return Ok(None) };
        if text.is_empty() {
            return Ok(Some(0));
        }
        let number = text.parse().map_err(|_| {
            Status::bad_request(format!("strconv.ParseInt: parsing \"{}\": invalid syntax", text.escape_debug()))
        })?;
        Ok(Some(number))
    }

    /// Whether nothing is to be stored.
    ///
    /// # Errors
    /// When the query's options cannot be read, or are not allowed.
    pub fn dry_run(&self, kind: OptionsKind) -> Result<bool, Status> {
        Ok(WriteOptions::from_query(self.query(), kind)?.is_dry_run())
    }

    /// The query, empty where there is none.
    pub fn query(&self) -> &str {
        self.uri.query().unwrap_or_default()
    }

    /// The 404 of the object that the URL names.
    pub fn not_found(&self) -> Status {
        Status::not_found(self.resource.group, self.resource.name, &self.info.name)
    }
}
