//! Negotiation of a response's form: `k8s.io/apiserver/pkg/endpoints/handlers/negotiation`, for JSON only.

use crate::request::accept::{MediaRange, media_ranges};
use crate::status::Status;

/// The form of a response. The encoding of every form is JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) enum Form {
    /// The object itself.
    Object,
    /// A `Table` of `meta.k8s.io` in this version.
    Table(&'static str),
    /// A `PartialObjectMetadata` of `meta.k8s.io` in this version, which no list has.
    Metadata(&'static str),
    /// A `PartialObjectMetadataList` of `meta.k8s.io` in this version, which only lists have.
    MetadataList(&'static str),
}

/// The preferred form among those in an `Accept` header: `negotiation.NegotiateMediaTypeOptions`.
///
/// # Errors
/// If the server supports none of the header's forms.
pub(in crate::embedded) fn form(accept: Option<&str>) -> Result<Form, Status> {
    let ranges = media_ranges(accept.unwrap_or_default());
    ranges.iter().find_map(form_of).ok_or_else(|| Status::not_acceptable(&["application/json"]))
}

fn form_of(range: &MediaRange<'_>) -> Option<Form> {
    if !range.contains("json") {
        return None;
    }
    if !range.is_converted() {
        return Some(Form::Object);
    }
    let version = match (range.parameter("g"), range.parameter("v")) {
        (Some("meta.k8s.io"), Some("v1")) => "meta.k8s.io/v1",
        (Some("meta.k8s.io"), Some("v1beta1")) => "meta.k8s.io/v1beta1",
        _ => return None,
    };
    match range.parameter("as")? {
        "Table" => Some(Form::Table(version)),
        "PartialObjectMetadata" => Some(Form::Metadata(version)),
        "PartialObjectMetadataList" => Some(Form::MetadataList(version)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_form_that_the_server_has_wins() {
        for (accept, expected) in [
            (None, Some(Form::Object)),
            (Some("*/*"), Some(Form::Object)),
            (Some("application/json"), Some(Form::Object)),
            (Some("application/vnd.kubernetes.protobuf"), None),
            (Some("application/vnd.kubernetes.protobuf, application/json"), Some(Form::Object)),
            (
                Some(
                    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                ),
                Some(Form::Table("meta.k8s.io/v1")),
            ),
            (Some("application/json;as=Table;v=v9;g=meta.k8s.io, application/json"), Some(Form::Object)),
            (Some("application/json;as=Table;v=v9;g=meta.k8s.io"), None),
            (
                Some("application/json;q=0.1, application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
                Some(Form::Metadata("meta.k8s.io/v1")),
            ),
            (Some("text/html"), None),
        ] {
            assert_eq!(form(accept).ok(), expected, "{accept:?}");
        }
    }
}
