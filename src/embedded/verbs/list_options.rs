//! The options of a list, a watch or a deletecollection (`metainternalversion.ListOptions`).

use crate::embedded::http::call::Call;
use crate::embedded::strategies;
use crate::go_text::go_quote;
use crate::object::selector::{FieldSelector, LabelSelector};
use crate::request::query::{self, NoNumber};
use crate::status::{Cause, Status, invalid};
use thiserror::Error;

const MATCH: &str = "resourceVersionMatch";

/// `internalversion.ListOptions`.
pub(in crate::embedded) struct ListOptions {
    pub(in crate::embedded) labels: LabelSelector,
    pub(in crate::embedded) fields: FieldSelector,
    /// Whether the query asks for a watch; a path can do that too.
    is_watch: bool,
    pub(in crate::embedded) allows_bookmarks: bool,
    pub(in crate::embedded) resource_version: String,
    pub(in crate::embedded) version_match: String,
    pub(in crate::embedded) timeout_seconds: Option<i64>,
    pub(in crate::embedded) limit: i64,
    pub(in crate::embedded) continue_token: String,
    pub(in crate::embedded) initial_events: Option<bool>,
    /// Whether a list without a limit counts as one with a limit: a deletecollection reads pages.
    pub(in crate::embedded) is_read_in_pages: bool,
}

impl ListOptions {
    /// Reads the options of a request, with their defaults (`handlers.listOpts`).
    ///
    /// # Errors
    /// 400 for a value that cannot be parsed or a field that the kind does not support, 422 for options that exclude each other.
    pub(in crate::embedded) fn of(call: &Call) -> Result<Self, Status> {
        let mut options = Self::parsed(call)?;
        options.set_defaults();
        options.validate()?;
        for requirement in options.fields.requirements() {
            if !is_of_metadata(&requirement.field) {
                strategies::of(&call.resource).check_selector(&call.resource, &requirement.field)?;
            }
        }
        let name = &call.info.name;
        if !name.is_empty() && !options.fields.is_empty() && options.fields.exact_match("metadata.name") != Some(name) {
            return Err(Status::bad_request("fieldSelector metadata.name doesn't match requested name"));
        }
        Ok(options)
    }

    /// `Convert_url_Values_To_v1_ListOptions` and the conversion of the selectors, in their order.
    fn parsed(call: &Call) -> Result<Self, Status> {
        let text = |name: &str| call.parameter(name).unwrap_or_default();
        let timeout_seconds = call.number("timeoutSeconds")?;
        let limit = call.number("limit")?.unwrap_or_default();
        Ok(Self {
            labels: LabelSelector::parse(&text("labelSelector")).map_err(Status::bad_request)?,
            fields: FieldSelector::parse(&text("fieldSelector")).map_err(Status::bad_request)?,
            is_watch: call.flag("watch").unwrap_or(false),
            allows_bookmarks: call.flag("allowWatchBookmarks").unwrap_or(false),
            resource_version: text("resourceVersion"),
            version_match: text(MATCH),
            timeout_seconds,
            limit,
            continue_token: text("continue"),
            initial_events: call.flag("sendInitialEvents"),
            is_read_in_pages: false,
        })
    }

    /// `internalversion.SetListOptionsDefaults`: a watch from no version, or from any, begins with all objects.
    fn set_defaults(&mut self) {
        let is_from_any = matches!(self.resource_version.as_str(), "" | "0");
        if self.is_watch && is_from_any && self.initial_events.is_none() && self.version_match.is_empty() {
            self.initial_events = Some(true);
            self.version_match = "NotOlderThan".to_owned();
        }
    }

    /// `validation.ValidateListOptions`.
    fn validate(&self) -> Result<(), Status> {
        let mut causes = Vec::new();
        match self.is_watch {
            true => self.validate_watch(&mut causes),
            false => self.validate_list(&mut causes),
        }
        invalid::options("ListOptions", causes).map_or(Ok(()), Err)
    }

    fn validate_list(&self, causes: &mut Vec<Cause>) {
        let wanted = self.version_match.as_str();
        if !wanted.is_empty() {
            if self.resource_version.is_empty() {
                let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                causes.push(invalid::forbidden(MATCH, why));
            }
            if !self.continue_token.is_empty() {
                causes.push(invalid::forbidden(MATCH, "resourceVersionMatch is forbidden when continue is provided"));
            }
            if !["Exact", "NotOlderThan"].contains(&wanted) {
                causes.push(invalid::not_supported(MATCH, wanted, &["Exact", "NotOlderThan", ""]));
            }
            if wanted == "Exact" && self.resource_version == "0" {
                let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                causes.push(invalid::forbidden(MATCH, why));
            }
        }
        if self.initial_events.is_some() {
            causes.push(invalid::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
    }

    fn validate_watch(&self, causes: &mut Vec<Cause>) {
        let wanted = self.version_match.as_str();
        if self.initial_events.is_some() && wanted != "NotOlderThan" {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            causes.push(invalid::forbidden(MATCH, why));
        }
        if wanted.is_empty() {
            return;
        }
        if self.initial_events.is_none() {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            causes.push(invalid::forbidden(MATCH, why));
        }
        if wanted != "NotOlderThan" {
            causes.push(invalid::not_supported(MATCH, wanted, &["NotOlderThan"]));
        }
        if !self.continue_token.is_empty() {
            causes.push(invalid::forbidden(MATCH, "resourceVersionMatch is forbidden when continue is provided"));
        }
    }

    /// Whether the selectors require one object, which kube-apiserver then reads alone (`SelectionPredicate.MatchesSingle`): pages and old versions are
    /// not those of a list.
    pub(in crate::embedded) fn is_for_one(&self, call: &Call) -> bool {
        let has_name = !call.info.name.is_empty() || self.fields.exact_match("metadata.name").is_some();
        let has_namespace = !call.namespace().is_empty()
            || !call.resource.namespaced
            || self.fields.exact_match("metadata.namespace").is_some_and(|namespace| !namespace.is_empty());
        self.continue_token.is_empty() && has_name && has_namespace
    }
}

/// A resourceVersion that is no number (`storage.NewInvalidError`).
#[derive(Debug, Error)]
#[error("resourceVersion: Invalid value: {}: {why}", go_quote(text))]
pub(in crate::embedded) struct InvalidVersion {
    text: String,
    #[source]
    why: NoNumber,
}

/// The resourceVersion in a request; 0 for any (`APIObjectVersioner.ParseResourceVersion`).
///
/// # Errors
/// If the text is no number: the reason, which the verbs show in different ways.
pub(in crate::embedded) fn revision(text: &str) -> Result<u64, InvalidVersion> {
    if text.is_empty() {
        return Ok(0);
    }
    query::unsigned(text).map_err(|why| InvalidVersion { text: text.to_owned(), why })
}

/// Checks the options of a Table (`validation.ValidateTableOptions`).
///
/// # Errors
/// 400 for a value that does not exist.
pub(in crate::embedded) fn check_table_options(call: &Call) -> Result<(), Status> {
    match call.parameter("includeObject").as_deref() {
        None | Some("" | "Metadata" | "Object" | "None") => Ok(()),
        Some(other) => Err(Status::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', 'None', or empty",
            go_quote(other)
        ))),
    }
}

/// The parameters of a get (`handlers.GetResource`).
///
/// # Errors
/// 400 if the client asks for an export.
pub(in crate::embedded) fn check_export(call: &Call) -> Result<(), Status> {
    match call.flag("export") {
        Some(true) => Err(Status::bad_request("the export parameter, deprecated since v1.14, is no longer supported")),
        _ => Ok(()),
    }
}

/// Whether a field is one that objects of all kinds can be selected by.
pub(in crate::embedded) fn is_of_metadata(field: &str) -> bool {
    matches!(field, "metadata.name" | "metadata.namespace")
}
