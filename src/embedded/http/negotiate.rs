//! Negotiation of a response's form and encoding: `k8s.io/apiserver/pkg/endpoints/handlers/negotiation`.

use crate::request::accept::{self, AnswerType, Converted};
use crate::request::body::{MediaType, MediaTypes};
use crate::response::ResponseForm;
use crate::status::Status;
use http::{HeaderMap, Uri};

/// The media types of the events of a watch.
const OF_EVENTS: [&str; 2] = ["application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"];

/// The form of a response.
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

/// The encoding of a response, whatever its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Encoding {
    pub media_type: MediaType,
    /// Whether JSON is indented.
    pub is_pretty: bool,
    /// The form of a refusal.
    pub failure: ResponseForm,
}

/// The preferred form among those in an `Accept` header, and its encoding (`negotiation.NegotiateMediaTypeOptions`).
///
/// # Errors
/// 406 if the server supports none of the header's forms.
pub(in crate::embedded) fn form(
    headers: &HeaderMap,
    uri: &Uri,
    answer: AnswerType,
    is_list: bool,
) -> Result<(Form, Encoding), Status> {
    let known = MediaTypes::default();
    // The routes of built-in kinds compare the header before the handlers (`restful.RouterJSR311.detectRoute`). That of lists serves watches
    // too.
    if answer != AnswerType::Custom {
        let of_events: &[&str] = if is_list { &OF_EVENTS } else { &[] };
        accept::check_routes(headers, &[known.names(), of_events].concat())?;
    }
    let agreed = accept::negotiate(headers, uri, answer, known);
    let agreed = agreed.ok_or_else(|| Status::not_acceptable(known.names()))?;
    let form = match agreed.converted {
        None => Form::Object,
        Some(Converted::Table(version)) => Form::Table(version),
        Some(Converted::Metadata(version)) => Form::Metadata(version),
        Some(Converted::MetadataList(version)) => Form::MetadataList(version),
    };
    let failure = ResponseForm::of(headers, uri, known);
    Ok((form, Encoding { media_type: agreed.media_type, is_pretty: agreed.is_pretty, failure }))
}

/// The media type of the events of a watch in this encoding (`serveWatchHandler`).
///
/// # Errors
/// 406 for YAML.
pub(in crate::embedded) fn of_events(encoding: Encoding) -> Result<&'static str, Status> {
    match encoding.media_type {
        MediaType::Protobuf => Ok("application/vnd.kubernetes.protobuf;stream=watch"),
        MediaType::Json => Ok("application/json"),
        MediaType::Yaml | MediaType::Cbor => Err(Status::not_acceptable(&OF_EVENTS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use http::header::ACCEPT;

    const ANY: AnswerType = AnswerType::BuiltIn { has_table: true };

    fn agreed(accept: &str, answer: AnswerType) -> Result<(Form, MediaType), String> {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_str(accept).unwrap())]);
        let found = form(&headers, &Uri::from_static("/"), answer, false);
        found.map(|(form, encoding)| (form, encoding.media_type)).map_err(|status| status.message)
    }

    #[test]
    fn the_first_form_that_the_server_has_wins() {
        let (json, protobuf) = (MediaType::Json, MediaType::Protobuf);
        let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        for (accept, expected) in [
            ("", Ok((Form::Object, json))),
            ("*/*", Ok((Form::Object, json))),
            ("application/yaml", Ok((Form::Object, MediaType::Yaml))),
            ("application/vnd.kubernetes.protobuf, application/json", Ok((Form::Object, protobuf))),
            (metadata, Ok((Form::Metadata("meta.k8s.io/v1"), protobuf))),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                Ok((Form::Table("meta.k8s.io/v1"), json)),
            ),
            ("application/json;as=Table;v=v9;g=meta.k8s.io, application/json", Ok((Form::Object, json))),
            (
                "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json",
                Ok((Form::Object, json)),
            ),
        ] {
            assert_eq!(agreed(accept, ANY), expected, "{accept}");
        }
    }

    #[test]
    fn a_refusal_says_what_there_is() {
        let all = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
        let handlers = format!("only the following media types are accepted: {all}");
        let routes = format!("406: Not Acceptable\n\nAvailable representations: {all}");
        assert_eq!(agreed("text/html", ANY), Err(routes));
        assert_eq!(agreed("text/html", AnswerType::Custom).as_ref(), Err(&handlers));
        assert_eq!(agreed("application/vnd.kubernetes.protobuf", AnswerType::Custom).as_ref(), Err(&handlers));
        assert_eq!(agreed("application/json;as=Table;v=v9;g=meta.k8s.io", ANY).as_ref(), Err(&handlers));
    }
}
