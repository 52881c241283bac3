//! The negotiation of the form of an answer, as in kube-apiserver (`endpoints/handlers/negotiation`).
//!
//! The rules are those of `goautoneg`, quirks included: the order of its sort, and `q=0`, which still accepts.

use super::body::{MediaType, MediaTypes};
use super::query::query_value;
use crate::status::{Details, Status};
use http::header::{ACCEPT, USER_AGENT};
use http::{HeaderMap, Uri};

/// The number of media ranges that are read from one header; clients need only a few.
const MAX_RANGES: usize = 64;

/// The type of an answer, which determines the forms that a client may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerType {
    /// A Status of failure, or another document in one form (`negotiation.DefaultEndpointRestrictions`).
    Failure,
    /// An object of a built-in kind (`handlers.RequestScope`), which may have a Table.
    BuiltIn {
        /// Whether the API server has a Table of the object.
        has_table: bool,
    },
    /// A custom resource.
    Custom,
    /// The aggregated document of discovery (`aggregated.DiscoveryEndpointRestrictions`).
    AggregatedDiscovery,
}

/// The agreed form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The encoding.
    pub(crate) media_type: MediaType,
    /// Whether the answer is formatted for a person.
    pub(crate) is_pretty: bool,
    /// The form of an answer that is not the object itself.
    pub(crate) converted: Option<Converted>,
}

/// A form that an object is converted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Converted {
    /// A `Table` of `meta.k8s.io` in this version.
    Table(&'static str),
    /// A `PartialObjectMetadata` of `meta.k8s.io` in this version.
    Metadata(&'static str),
    /// A `PartialObjectMetadataList` of `meta.k8s.io` in this version.
    MetadataList(&'static str),
}

/// Returns the best form that the header accepts and the server supports (`NegotiateMediaTypeOptions`); `None` if there is no
/// such form.
pub fn negotiate(headers: &HeaderMap, uri: &Uri, answer: AnswerType, known: MediaTypes) -> Option<Agreed> {
    let accept = accept(headers);
    let is_pretty = is_pretty(headers, uri);
    if accept.is_empty() {
        let plain = Agreed { media_type: MediaType::Json, is_pretty, converted: None };
        return Some(plain).filter(|_| answer != AnswerType::AggregatedDiscovery);
    }
    media_ranges(accept).iter().find_map(|range| {
        let media_type = *known.all().iter().find(|media_type| range.accepts(**media_type, answer))?;
        let is_pretty = is_pretty || range.parameter("pretty") == Some("1");
        Some(Agreed { media_type, is_pretty, converted: range.converted() })
    })
}

/// Whether a route that produces these media types matches the header (`restful.Route.matchesAccept`): compares literally.
fn routes_match(headers: &HeaderMap, produced: &[&str]) -> bool {
    let accept = accept(headers);
    accept.is_empty()
        || accept.split(',').any(|range| {
            let media_type = range.split(';').next().unwrap_or_default().trim_matches(' ');
            media_type == "*/*" || produced.contains(&media_type)
        })
}

/// Refuses a header that matches no route that produces these media types (`serviceErrorHandler`).
///
/// # Errors
/// 406 for such a header.
pub(crate) fn check_routes(headers: &HeaderMap, produced: &[&str]) -> Result<(), Status> {
    if routes_match(headers, produced) {
        return Ok(());
    }
    let text = format!("406: Not Acceptable\n\nAvailable representations: {}", produced.join(", "));
    Err(Status::failure(406, "NotAcceptable", text).with_details(Details::default()))
}

fn accept(headers: &HeaderMap) -> &str {
    headers.get(ACCEPT).map(|value| value.to_str().unwrap_or("?")).unwrap_or_default()
}

/// Whether the request has `?pretty=`, or a client that a person uses (`isPrettyPrint`).
pub(crate) fn is_pretty(headers: &HeaderMap, uri: &Uri) -> bool {
    let asked = query_value(uri.query().unwrap_or_default(), "pretty").filter(|value| !value.is_empty());
    if let Some(asked) = asked {
        return matches!(&*asked, "1" | "t" | "T" | "true" | "TRUE" | "True");
    }
    let user_agent = headers.get(USER_AGENT).map(http::HeaderValue::as_bytes).unwrap_or_default();
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|person| user_agent.starts_with(person.as_bytes()))
}

/// One media range of an `Accept` header.
#[derive(Debug, PartialEq)]
pub(crate) struct MediaRange<'a> {
    type_: &'a str,
    subtype: &'a str,
    quality: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> MediaRange<'a> {
    /// Parses a media range (`goautoneg.ParseAccept`); `None` for other text.
    fn parse(text: &'a str) -> Option<Self> {
        let trimmed = |text: &'a str| text.trim_matches(' ');
        let mut parts = trimmed(text).split(';');
        let media_type = parts.next().unwrap_or_default();
        let (type_, subtype) = match media_type.split_once('/') {
            Some((type_, subtype)) if !subtype.is_empty() => (trimmed(type_), subtype),
            _ if trimmed(media_type) == "*" => ("*", "*"),
            _ => return None,
        };
        // `goautoneg` treats `a/b/` as `a/b`.
        let subtype = subtype.strip_suffix('/').unwrap_or(subtype);
        if subtype.contains('/') {
            return None;
        }
        let mut range = Self { type_, subtype: trimmed(subtype), quality: 1.0, parameters: Vec::new() };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            let value = value.strip_suffix('=').unwrap_or(value);
            if value.is_empty() || value.contains('=') {
                continue;
            }
            match trimmed(name) {
                "q" => range.quality = value.parse().unwrap_or(0.0),
                name => range.parameters.push((name, trimmed(value))),
            }
        }
        Some(range)
    }

    /// Returns the value of a parameter. The last of several values counts.
    pub(crate) fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.iter().rev().find(|(other, _)| *other == name).map(|(_, value)| *value)
    }

    /// `acceptSlice.Less`, which is not a consistent order: an exact type comes before a range, whatever the qualities.
    fn is_before(&self, other: &Self) -> bool {
        self.quality > other.quality
            || self.type_ != "*" && other.type_ == "*"
            || self.subtype != "*" && other.subtype == "*"
    }

    /// Whether the range contains `application/<subtype>`.
    pub(crate) fn contains(&self, subtype: &str) -> bool {
        match (self.type_, self.subtype) {
            ("*", own) => own == "*",
            (type_, own) => type_ == "application" && (own == "*" || own == subtype),
        }
    }

    /// Whether the range contains `text/<subtype>`.
    pub(crate) fn contains_text(&self, subtype: &str) -> bool {
        match (self.type_, self.subtype) {
            ("*", own) => own == "*",
            (type_, own) => type_ == "text" && (own == "*" || own == subtype),
        }
    }

    /// Whether the range accepts this encoding of the answer, in the form that the parameters of the range ask for.
    fn accepts(&self, media_type: MediaType, answer: AnswerType) -> bool {
        let subtype = media_type.as_str().split_once('/').map_or("", |(_, subtype)| subtype);
        self.contains(subtype) && self.asks_for_what_there_is(media_type, answer)
    }

    /// Whether the range asks for another form than the object itself: a Table, or metadata alone.
    pub(crate) fn is_converted(&self) -> bool {
        ["as", "g", "v"].iter().any(|name| self.parameter(name).is_some())
    }

    /// The form that the range asks for, if an API server has it.
    fn converted(&self) -> Option<Converted> {
        let version = match (self.parameter("g"), self.parameter("v")) {
            (Some("meta.k8s.io"), Some("v1")) => "meta.k8s.io/v1",
            (Some("meta.k8s.io"), Some("v1beta1")) => "meta.k8s.io/v1beta1",
            _ => return None,
        };
        match self.parameter("as")? {
            "Table" => Some(Converted::Table(version)),
            "PartialObjectMetadata" => Some(Converted::Metadata(version)),
            "PartialObjectMetadataList" => Some(Converted::MetadataList(version)),
            _ => None,
        }
    }

    /// `acceptMediaTypeOptions`
    fn asks_for_what_there_is(&self, media_type: MediaType, answer: AnswerType) -> bool {
        let of = |name: &str| self.parameter(name).unwrap_or_default();
        let stream = of("stream");
        if !stream.is_empty() && (stream != "watch" || media_type == MediaType::Yaml) {
            return false;
        }
        let version = of("sv");
        let has_versions = matches!(answer, AnswerType::BuiltIn { .. } | AnswerType::Custom);
        if !version.is_empty() && (version != "v1" || !has_versions) {
            return false;
        }
        let is_converted = self.is_converted();
        match (answer, self.converted()) {
            (AnswerType::Failure, _) => !is_converted,
            (AnswerType::AggregatedDiscovery, _) => {
                [of("g"), of("v"), of("as")] == ["apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList"]
            }
            (AnswerType::Custom, None) if !is_converted => media_type != MediaType::Protobuf,
            (_, None) => !is_converted,
            (AnswerType::BuiltIn { has_table: false }, Some(Converted::Table(_))) => false,
            (_, Some(Converted::Table(_))) => matches!(media_type, MediaType::Json | MediaType::Yaml),
            (_, Some(Converted::Metadata(_) | Converted::MetadataList(_))) => true,
        }
    }
}

/// Returns the media ranges of an `Accept` header in the order in which the API server tries them: that of Go's `sort.Sort` for so
/// few, by insertion (`goautoneg.ParseAccept`). A header without text accepts everything.
pub(crate) fn media_ranges(accept: &str) -> Vec<MediaRange<'_>> {
    let accept = if accept.trim().is_empty() { "*/*" } else { accept };
    let mut ranges: Vec<_> = accept.split(',').take(MAX_RANGES).filter_map(MediaRange::parse).collect();
    for last in 1..ranges.len() {
        let mut at = last;
        while let Some([before, range]) = at.checked_sub(1).and_then(|before| ranges.get(before..=at))
            && range.is_before(before)
        {
            ranges.swap(at, at - 1);
            at -= 1;
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    const ANY: AnswerType = AnswerType::BuiltIn { has_table: true };

    fn agreed(accept: &str, answer: AnswerType) -> Option<MediaType> {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_str(accept).unwrap())]);
        negotiate(&headers, &Uri::from_static("/"), answer, MediaTypes::default()).map(|agreed| agreed.media_type)
    }

    /// Compares with the answers of a kube-apiserver 1.36.3 with the gate on.
    #[test]
    fn cbor_is_one_of_the_forms_where_its_gate_is_on() {
        let (json, cbor) = (Some(MediaType::Json), Some(MediaType::Cbor));
        let metadata = "application/cbor;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        for (accept, object, custom, failure) in [
            ("application/cbor", cbor, cbor, cbor),
            ("application/cbor-seq", None, None, None),
            ("*/*", json, json, json),
            ("application/*", json, json, json),
            ("application/json,application/cbor", json, json, json),
            ("application/json;q=0.5,application/cbor", cbor, cbor, cbor),
            ("application/cbor;stream=watch", cbor, cbor, cbor),
            ("application/cbor;pretty=1", cbor, cbor, cbor),
            ("application/cbor;sv=v1", cbor, cbor, None),
            ("application/cbor;as=Table;g=meta.k8s.io;v=v1", None, None, None),
            (metadata, cbor, cbor, None),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            let known = MediaTypes { has_cbor: true };
            let found = [ANY, AnswerType::Custom, AnswerType::Failure].map(|answer| {
                negotiate(&headers, &Uri::from_static("/"), answer, known).map(|agreed| agreed.media_type)
            });
            assert_eq!(found, [object, custom, failure], "{accept}");
        }
    }

    /// Compares with the answers of a kube-apiserver 1.36.3.
    #[test]
    fn the_first_range_that_the_server_can_satisfy_wins() {
        let (json, yaml, protobuf) = (Some(MediaType::Json), Some(MediaType::Yaml), Some(MediaType::Protobuf));
        for (accept, expected) in [
            ("", json),
            ("*/*", json),
            ("*", json),
            ("application/*", json),
            ("application/yaml", yaml),
            ("application/vnd.kubernetes.protobuf", protobuf),
            ("application/vnd.kubernetes.protobuf;stream=watch", protobuf),
            ("application/yaml;stream=watch", None),
            ("application/json;stream=other", None),
            ("application/json;stream=", json),
            ("application/cbor", None),
            ("Application/JSON", None),
            ("text/html", None),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", json),
            ("application/json;q=0.1,application/yaml", yaml),
            ("application/yaml;q=0.5, application/json;q=0.5", yaml),
            ("*/*;q=0.1, application/yaml;q=0.01", yaml),
            ("application/yaml;q=abc, application/json;q=0.1", json),
            ("application/json;q=0", json),
            ("application/json/x", None),
            ("application/json;;", json),
            ("application", None),
            (",", None),
        ] {
            assert_eq!(agreed(accept, ANY), expected, "{accept}");
        }
    }

    #[test]
    fn a_form_is_to_be_had_of_some_answers_only() {
        let json = "application/json;g=meta.k8s.io;v=v1;as=";
        let protobuf = "application/vnd.kubernetes.protobuf;g=meta.k8s.io;v=v1;as=";
        for (accept, built_in, custom, failure) in [
            (format!("{json}Table"), true, true, false),
            (format!("{protobuf}Table"), false, false, false),
            (format!("{json}PartialObjectMetadata"), true, true, false),
            (format!("{protobuf}PartialObjectMetadata"), true, true, false),
            (format!("{json}Foo"), false, false, false),
            ("application/json;as=Table;g=meta.k8s.io;v=v9".into(), false, false, false),
            ("application/json;as=Table".into(), false, false, false),
            ("application/json;v=v1".into(), false, false, false),
            ("application/json;sv=v1".into(), true, true, false),
            ("application/json;sv=v2".into(), false, false, false),
            ("application/vnd.kubernetes.protobuf".into(), true, false, true),
        ] {
            let found = [ANY, AnswerType::Custom, AnswerType::Failure].map(|answer| agreed(&accept, answer).is_some());
            assert_eq!(found, [built_in, custom, failure], "{accept}");
        }
        assert_eq!(agreed(&format!("{json}Table"), AnswerType::BuiltIn { has_table: false }), None);
        assert_eq!(agreed(&format!("{json}Foo,application/yaml"), ANY), Some(MediaType::Yaml));
    }

    #[test]
    fn people_get_what_they_can_read() {
        for (query, user_agent, expected) in [
            ("/", "kubectl/v1.36", false),
            ("/", "curl/8", true),
            ("/", "Mozilla/5.0 (X11)", true),
            ("/", "Mozilla/4.0", false),
            ("/?pretty=0", "curl/8", false),
            ("/?pretty=false", "curl/8", false),
            ("/?pretty=maybe", "curl/8", false),
            ("/?pretty", "curl/8", true),
            ("/?pretty=", "x", false),
            ("/?pretty=true", "x", true),
            ("/?pretty=1&pretty=0", "x", true),
            ("/?pretty=yes", "x", false),
        ] {
            let headers = HeaderMap::from_iter([(USER_AGENT, HeaderValue::from_static(user_agent))]);
            let uri = Uri::from_static(query);
            let agreed = negotiate(&headers, &uri, AnswerType::Failure, MediaTypes::default()).unwrap();
            assert_eq!(agreed.is_pretty, expected, "{query} {user_agent}");
        }
    }

    #[test]
    fn a_route_compares_letter_by_letter() {
        for (accept, expected) in [
            ("", true),
            ("*/*", true),
            ("application/json ; q=0.1", true),
            ("text/html, application/json", true),
            ("application/*", false),
            ("*", false),
            ("Application/JSON", false),
            ("application/json/x", false),
            (",", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(routes_match(&headers, &["application/json"]), expected, "{accept}");
        }
    }
}
