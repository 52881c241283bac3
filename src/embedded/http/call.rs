//! One request on a resource, described by its method, URL, headers and body.

use super::negotiate::{Encoding, Form};
use crate::embedded::api::catalog::ServedResource;
use crate::embedded::server::Server;
use crate::embedded::store::{self, Collection, Store, Task, Work, Writer};
use crate::embedded::strategies::owners::Subject;
use crate::embedded::strategies::{Context, Warn};
use crate::kind::GroupVersionKind;
use crate::object::managed_fields::manager_name;
use crate::request::body::{OptionsKind, WriteOptions};
use crate::request::{RequestInfo, query};
use crate::status::Status;
use crate::user::UserInfo;
use bytes::Bytes;
use http::Uri;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// A request on a resource of the catalog.
pub(in crate::embedded) struct Call {
    pub server: Arc<Server>,
    /// The parts of the URL.
    pub info: RequestInfo,
    /// The resource that the URL names.
    pub resource: Arc<ServedResource>,
    pub uri: Uri,
    /// The user of the request.
    pub caller: UserInfo,
    /// The form of the response.
    pub form: Form,
    /// The encoding of the response.
    pub encoding: Encoding,
    /// `User-Agent`; empty if the request has none.
    pub user_agent: String,
    pub content_type: Option<String>,
    /// The body; empty for reads.
    pub body: Bytes,
    /// The warnings for the client.
    pub warnings: Mutex<Warnings>,
    /// The tasks of the controllers that follow from the request's writes.
    pub work: Work,
}

/// Warnings for a client, each once.
#[derive(Default)]
pub(in crate::embedded) struct Warnings {
    /// The warnings in their order.
    pub texts: Vec<String>,
    known: HashSet<String>,
    characters: usize,
}

/// `truncateAtTotalRunes` and `truncateItemRunes`: after so many characters, of at most so many for one warning, a client gets no others.
const WARNINGS: (usize, usize) = (4096, 256);

impl Call {
    /// The namespace of the request; empty for all namespaces, and for kinds without namespaces.
    pub(in crate::embedded) fn namespace(&self) -> &str {
        if self.resource.namespaced { &self.info.namespace } else { "" }
    }

    /// The collection of the resource.
    pub(in crate::embedded) fn collection(&self) -> &Collection {
        &self.resource.collection
    }

    /// The key of the object that the URL names.
    pub(in crate::embedded) fn key(&self) -> String {
        store::key(self.namespace(), &self.info.name)
    }

    /// The first value of a query parameter.
    pub(in crate::embedded) fn parameter(&self, name: &str) -> Option<String> {
        query::query_value(self.query(), name)
    }

    /// A boolean query parameter, as `runtime.Convert_Slice_string_To_bool` reads it: any value but `false` and `0` is true.
    pub(in crate::embedded) fn flag(&self, name: &str) -> Option<bool> {
        self.parameter(name).map(|value| !(value == "0" || value.eq_ignore_ascii_case("false")))
    }

    /// A query parameter that is a whole number.
    ///
    /// # Errors
    /// If the value is no number.
    pub(in crate::embedded) fn number(&self, name: &str) -> Result<Option<i64>, Status> {
        self.parameter(name)
            .map(|text| query::integer(&text))
            .transpose()
            .map_err(|error| Status::bad_request(error.to_string()))
    }

    /// Whether the request is a dry run.
    ///
    /// # Errors
    /// If the query's options cannot be parsed, or are not allowed.
    pub(in crate::embedded) fn dry_run(&self, kind: OptionsKind) -> Result<bool, Status> {
        Ok(WriteOptions::from_query(self.query(), kind)?.is_dry_run())
    }

    /// Adds a warning for the client, once (`warning.AddWarning`).
    pub(in crate::embedded) fn warn(&self, warning: String) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if warnings.characters < WARNINGS.0 && warnings.known.insert(warning.clone()) {
            warnings.characters += warning.chars().take(WARNINGS.1).count();
            warnings.texts.push(warning);
        }
    }

    /// The query; empty if the URL has none.
    pub(in crate::embedded) fn query(&self) -> &str {
        self.uri.query().unwrap_or_default()
    }

    /// The call as a write, for the strategy of its kind.
    pub(in crate::embedded) fn context(&self, dry_run: bool) -> Context<'_> {
        Context {
            store: &self.server.store,
            settings: &self.server.settings,
            limits: &self.server.limits,
            resource: &self.resource,
            namespace: self.namespace(),
            name: &self.info.name,
            subresource: &self.info.subresource,
            caller: &self.caller,
            dry_run,
            warnings: self,
        }
    }

    /// The owners of the fields of an object, or of a subresource that is a part of the object.
    pub(in crate::embedded) fn owners(&self) -> Subject<'_> {
        Subject::object(&self.resource, &self.info.subresource, self.manager())
    }

    /// The owners of the fields of an object of another kind, such as a Scale or a TokenRequest.
    pub(in crate::embedded) fn owners_of(&self, kind: GroupVersionKind) -> Subject<'_> {
        Subject::of_kind(&self.resource, &self.info.subresource, self.manager(), kind)
    }

    fn manager(&self) -> String {
        manager_name(&self.parameter("fieldManager").unwrap_or_default(), &self.user_agent)
    }

    /// The 404 of the object that the URL names.
    pub(in crate::embedded) fn not_found(&self) -> Status {
        Status::not_found(&self.resource.group, &self.resource.name, &self.info.name)
    }
}

impl Warn for Call {
    fn warn(&self, text: String) {
        Self::warn(self, text);
    }
}

impl Writer for Call {
    fn store(&self) -> &Store {
        &self.server.store
    }

    fn follow(&self, tasks: Vec<Task>) {
        self.work.follow(tasks);
    }
}
