//! `spec.conversion` (`validateCustomResourceConversion`).

use super::internal::Fields;
use crate::go_text::json;
use crate::names::{dns_1035_label_errors, dns_1123_subdomain_errors};
use crate::status::fault;
use crate::status::{Cause, invalid};
use crate::structural::validate::Url;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The versions of ConversionReview that the API server reads.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

/// The invalid parts of a definition that an update may keep.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    /// Whether a known version of ConversionReview is required.
    pub(super) requires_known_review: bool,
    /// Whether the certificates may be unreadable.
    pub(super) allows_invalid_bundle: bool,
}

impl Options {
    /// The options of an update of a definition.
    pub(super) fn of_update(old: Option<Fields<'_>>, is_established: bool) -> Self {
        let webhook = old.and_then(|old| old.object("webhook"));
        let mut reviews = webhook.into_iter().flat_map(|webhook| webhook.texts("conversionReviewVersions")).peekable();
        let bundle = webhook.and_then(|webhook| webhook.object("clientConfig")?.optional_text("caBundle"));
        Self {
            requires_known_review: reviews.peek().is_none() || reviews.any(|review| REVIEWS.contains(&review)),
            allows_invalid_bundle: !is_established || bundle.and_then(bundle_error).is_some(),
        }
    }
}

/// The errors of a conversion.
pub(super) fn check(conversion: Fields<'_>, options: Options, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (strategy, webhook) = (conversion.text("strategy"), conversion.object("webhook"));
    let field = format!("{path}.strategy");
    match strategy {
        "" => causes.push(fault::required(&field, "")),
        "None" | "Webhook" => {}
        other => {
            causes.push(fault::not_supported(&field, &crate::go_text::go_quote(other), ["None", "Webhook"]));
        }
    }
    let client = webhook.and_then(|webhook| webhook.object("clientConfig"));
    let (client_path, reviews_path) =
        (format!("{path}.webhookClientConfig"), format!("{path}.conversionReviewVersions"));
    if strategy != "Webhook" {
        let why = "should not be set when strategy is not set to Webhook";
        causes.extend(client.map(|_| invalid::forbidden(&client_path, why)));
        let has_reviews = webhook.is_some_and(|webhook| webhook.has_any("conversionReviewVersions"));
        causes.extend(has_reviews.then(|| invalid::forbidden(&reviews_path, why)));
        return causes;
    }
    match client {
        None => causes.push(fault::required(&client_path, "required when strategy is set to Webhook")),
        Some(client) => self::client(client, options, &client_path, &mut causes),
    }
    let reviews: Vec<_> = webhook.into_iter().flat_map(|webhook| webhook.texts("conversionReviewVersions")).collect();
    self::reviews(&reviews, options, &reviews_path, &mut causes);
    causes
}

fn client(client: Fields<'_>, options: Options, path: &str, causes: &mut Vec<Cause>) {
    match (client.optional_text("url"), client.object("service")) {
        (Some(url), None) => self::url(url, &format!("{path}.url"), causes),
        (None, Some(service)) => self::service(service, &format!("{path}.service"), causes),
        _ => causes.push(fault::required(path, "exactly one of url or service is required")),
    }
    if let Some(bundle) = client.optional_text("caBundle").filter(|bundle| !bundle.is_empty())
        && !options.allows_invalid_bundle
        && let Some(why) = bundle_error(bundle)
    {
        causes.push(invalid::invalid(&format!("{path}.caBundle"), &crate::go_text::json::string(bundle), &why));
    }
}

/// The error of certificates in base64 (`webhook.ValidateCABundle`). Only texts without a PEM block are known to be invalid here; the
/// certificates within are not read.
fn bundle_error(bundle: &str) -> Option<String> {
    let bytes = STANDARD.decode(bundle).ok()?;
    let has_block = String::from_utf8_lossy(&bytes).contains("-----BEGIN ");
    let is_wrong = !bytes.is_empty() && !has_block;
    is_wrong.then(|| "unable to load root certificates: unable to parse bytes as PEM block".to_owned())
}

/// `webhook.ValidateWebhookURL`
fn url(text: &str, path: &str, causes: &mut Vec<Cause>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(why) => {
            causes.push(fault::required(path, &format!("url must be a valid URL: {why}{FORM}")));
            return;
        }
    };
    if url.scheme != "https" {
        let why = format!("'https' is the only allowed URL scheme{FORM}");
        causes.push(fault::invalid_text(path, &url.scheme, &why));
    }
    if url.host.is_empty() {
        causes.push(fault::invalid_text(path, "", &format!("host must be specified{FORM}")));
    }
    let parts = [
        (url.user.unwrap_or_default(), url.user.is_some(), "user information is"),
        (url.fragment, !url.fragment.is_empty(), "fragments are"),
        (url.query, !url.query.is_empty(), "query parameters are"),
    ];
    for (part, is_given, what) in parts {
        if is_given {
            causes.push(fault::invalid_text(path, part, &format!("{what} not permitted in the URL")));
        }
    }
}

/// `webhook.ValidateWebhookService`
fn service(service: Fields<'_>, path: &str, causes: &mut Vec<Cause>) {
    // kube-apiserver passes the name for the namespace and the namespace for the name.
    for (field, value) in [("name", service.text("namespace")), ("namespace", service.text("name"))] {
        if value.is_empty() {
            causes.push(fault::required(&format!("{path}.{field}"), ""));
        }
    }
    let port = service.given("port").and_then(Value::as_i64).unwrap_or_default();
    if !(1..=65535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        causes.push(invalid::invalid(&format!("{path}.port"), &port.to_string(), why));
    }
    let (text, field) = (service.text("path"), format!("{path}.path"));
    let mut wrong = |why: &str| causes.push(fault::invalid_text(&field, text, why));
    match text {
        "" | "/" => return,
        "//" => return wrong("segment[0] may not be empty"),
        text if !text.starts_with('/') => wrong("must start with a '/'"),
        _ => {}
    }
    // The first byte is not part of a segment, whatever it is.
    let rest = text.get(1..).unwrap_or_default();
    for (index, segment) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if segment.is_empty() {
            wrong(&format!("segment[{index}] may not be empty"));
            continue;
        }
        for why in dns_1123_subdomain_errors(segment) {
            wrong(&format!("segment[{index}]: {why}"));
        }
    }
}

/// `validateConversionReviewVersions`
fn reviews(reviews: &[&str], options: Options, path: &str, causes: &mut Vec<Cause>) {
    if reviews.is_empty() {
        causes.push(fault::required(path, ""));
        return;
    }
    let mut known = std::collections::HashSet::new();
    for (index, review) in reviews.iter().enumerate() {
        let field = format!("{path}[{index}]");
        if !known.insert(review) {
            causes.push(fault::invalid_text(&field, review, "duplicate version"));
            continue;
        }
        causes.extend(dns_1035_label_errors(review).iter().map(|why| fault::invalid_text(&field, review, why)));
    }
    if options.requires_known_review && !reviews.iter().any(|review| REVIEWS.contains(review)) {
        let value = json::text(&Value::from(reviews));
        causes.push(invalid::invalid(path, &value, "must include at least one of v1, v1beta1"));
    }
}
