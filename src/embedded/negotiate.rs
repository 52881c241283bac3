//! Negotiation of a response's form: `k8s.io/apiserver/pkg/endpoints/handlers/negotiation`, for JSON only.

use crate::status::Status;

/// The form of a response. The encoding of every form is JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The object itself.
    Object,
    /// A `Table` of `meta.k8s.io` in this version.
    Table(&'static str),
    /// A `PartialObjectMetadata` of `meta.k8s.io` in this version, which no list has.
    Metadata(&'static str),
    /// A `PartialObjectMetadataList` of `meta.k8s.io` in this version, which only lists have.
    MetadataList(&'static str),
}

/// The number of media ranges that are read from one `Accept` header.
const MAX_RANGES: usize = 32;

/// The preferred form among those in an `Accept` header: `negotiation.NegotiateMediaTypeOptions`.
///
/// # Errors
/// If the server supports none of the header's forms.
pub(super) fn form(accept: Option<&str>) -> Result<Form, Status> {
    let accept = accept.map(str::trim).filter(|accept| !accept.is_empty()).unwrap_or("*/*");
    let mut ranges: Vec<_> = accept.split(',').take(MAX_RANGES).map(parse).collect();
    // A stable sort: ranges of the same quality keep their order.
    ranges.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    ranges.iter().find_map(Range::form).ok_or_else(|| Status::not_acceptable(&["application/json"]))
}

struct Range<'a> {
    media_type: &'a str,
    quality: f64,
    form: &'a str,
    group: &'a str,
    version: &'a str,
}

fn parse(range: &str) -> Range<'_> {
    let mut parts = range.split(';').map(str::trim);
    let mut range =
        Range { media_type: parts.next().unwrap_or_default(), quality: 1.0, form: "", group: "", version: "" };
    for (name, value) in parts.filter_map(|part| part.split_once('=')) {
        match name.trim() {
            "q" => range.quality = value.trim().parse().unwrap_or(1.0),
            "as" => range.form = value.trim(),
            "g" => range.group = value.trim(),
            "v" => range.version = value.trim(),
            _ => {}
        }
    }
    range
}

impl Range<'_> {
    fn form(&self) -> Option<Form> {
        if !matches!(self.media_type, "application/json" | "application/*" | "*/*") {
            return None;
        }
        if self.form.is_empty() {
            return Some(Form::Object);
        }
        let version = match (self.group, self.version) {
            ("meta.k8s.io", "v1") => "meta.k8s.io/v1",
            ("meta.k8s.io", "v1beta1") => "meta.k8s.io/v1beta1",
            _ => return None,
        };
        match self.form {
            "Table" => Some(Form::Table(version)),
            "PartialObjectMetadata" => Some(Form::Metadata(version)),
            "PartialObjectMetadataList" => Some(Form::MetadataList(version)),
            _ => None,
        }
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
