//! The requests in which writes reach the API server: their bodies, how they are sent, and the form of their answers.

use super::gateway::{Answer, with_body};
use super::owners::Owners;
use super::request_log::Part;
use super::write::{Sent, Write, schema};
use crate::admission::Attributes;
use crate::body::Body;
use crate::kind::GroupVersionKind;
use crate::object::patch::{PatchType, merge_diff};
use crate::object::{Object, protobuf};
use crate::request::body::{self, BodyForm, MediaType};
use crate::request::query::{query_value, query_values};
use crate::response;
use crate::status::Status;
use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, Response, StatusCode, Uri};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// The size in bytes from which kube-apiserver compresses an answer (`defaultGzipThresholdBytes`).
const GZIP_BYTES: usize = 128 * 1024;

/// The bytes that admission typically adds to an object: a token's volume, tolerations, defaults.
const ADMITTED_BYTES: usize = 2048;

/// The answer to a write of which the proxy reads only the metadata.
const METADATA: HeaderValue = HeaderValue::from_static("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io");

/// Asks for an answer for the proxy.
fn for_json(headers: &mut HeaderMap) {
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.remove(ACCEPT_ENCODING);
}

/// A request that is to be sent to the API server.
#[derive(Clone)]
pub(super) struct Outgoing {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) content_type: &'static str,
    pub(super) body: Bytes,
    /// Whether the proxy wrote the body in protobuf, and can write the body in JSON as well.
    pub(super) is_encoded: bool,
    /// The owners of the fields, if they differ from those that the API server behind records.
    pub(super) owners: Option<Owners>,
}

impl Write<'_> {
    /// Sends an admitted write as the caller's request, and reads the answer.
    pub(super) async fn forward(&self, outgoing: Outgoing) -> Result<Answer, Status> {
        let _forwarding = self.times.begin(Part::Forward);
        self.send(outgoing, only_gzip).await
    }

    /// Sends a write as the caller's request. The answer is for the proxy: in JSON, whatever the client accepts.
    pub(super) async fn forward_for_json(&self, outgoing: Outgoing) -> Result<Answer, Status> {
        let _forwarding = self.times.begin(Part::Forward);
        self.send(outgoing, for_json).await
    }

    /// Sends a write as the caller's request. The answer has the form that the client accepts, without compression.
    pub(super) async fn forward_for_plain(&self, outgoing: Outgoing) -> Result<Answer, Status> {
        let _forwarding = self.times.begin(Part::Forward);
        self.send(outgoing, |headers| drop(headers.remove(ACCEPT_ENCODING))).await
    }

    /// Sends a write as the caller's request. The answer has nothing but the metadata of the object.
    pub(super) async fn forward_for_metadata(&self, outgoing: Outgoing) -> Result<Answer, Status> {
        let _forwarding = self.times.begin(Part::Forward);
        self.send(outgoing, |headers| {
            headers.insert(ACCEPT, METADATA);
            headers.remove(ACCEPT_ENCODING);
        })
        .await
    }

    /// Sends a request. After a 415 to protobuf, which changes nothing, sends the request again in JSON.
    async fn send(&self, outgoing: Outgoing, accept: impl Fn(&mut HeaderMap)) -> Result<Answer, Status> {
        let gateway = &self.pipeline.gateway;
        let request = |Outgoing { method, uri, content_type, body, .. }: Outgoing| {
            let mut request = with_body(&method, &uri, &self.parts.headers, content_type, body);
            accept(request.headers_mut());
            request
        };
        if !outgoing.is_encoded {
            return gateway.ask_as(self.caller, request(outgoing)).await;
        }
        let response = gateway.stream(request(outgoing.clone()), self.caller).await?;
        if response.status() != StatusCode::UNSUPPORTED_MEDIA_TYPE {
            // The body is not held while the answer is read.
            drop(outgoing);
            return gateway.collect(response, self.caller).await;
        }
        body::discard(response.into_body()).await;
        gateway.release.refused_protobuf();
        gateway.ask_as(self.caller, request(self.in_json(outgoing)?)).await
    }

    /// Sends a write as the proxy's own request. The answer has nothing but the metadata of the object: the caller may have no right to
    /// read more.
    pub(super) async fn forward_as_proxy(&self, outgoing: Outgoing) -> Result<Answer, Status> {
        let Outgoing { method, uri, content_type, body, .. } = outgoing;
        let headers = HeaderMap::from_iter([(ACCEPT, METADATA)]);
        self.pipeline.gateway.ask_as_proxy(with_body(&method, &uri, &headers, content_type, body), self.caller).await
    }

    /// Converts a protobuf body to JSON, for an API server that does not take protobuf.
    fn in_json(&self, outgoing: Outgoing) -> Result<Outgoing, Status> {
        let decoded = body::decode_object(&outgoing.body, MediaType::Protobuf, self.target.kind(), BodyForm::AsSent)?;
        let body = serde_json::to_vec(&decoded.object).map_err(Status::internal_error)?.into();
        Ok(Outgoing { body, content_type: "application/json", is_encoded: false, ..outgoing })
    }

    /// Builds a request with a JSON body for the client's method and URL.
    pub(super) fn outgoing(&self, body: Bytes) -> Outgoing {
        Outgoing {
            method: self.parts.method.clone(),
            uri: self.parts.uri.clone(),
            content_type: "application/json",
            body,
            is_encoded: false,
            owners: None,
        }
    }

    /// Builds a request with a JSON body that the proxy wrote. For a custom resource the API server skips field validation: the
    /// client's fields were validated before, and unknown fields that webhooks add cause no warning.
    pub(super) fn written(&self, body: Bytes) -> Result<Outgoing, Status> {
        let mut outgoing = self.outgoing(body);
        if self.schema.is_some() {
            outgoing.uri = with_parameter(&outgoing.uri, "fieldValidation=Ignore")?;
        }
        Ok(outgoing)
    }

    /// Builds the request for the admitted object: with the client's bytes if the object did not change; otherwise in protobuf,
    /// or in JSON if protobuf cannot carry the object or the API server does not take protobuf.
    pub(super) fn admitted(&self, attributes: &Attributes, sent: &Sent) -> Result<Outgoing, Status> {
        let Some(object) = &attributes.object else { return Ok(self.outgoing(Bytes::new())) };
        match sent.verbatim {
            Some(media_type) if !object.is_changed() => {
                Ok(Outgoing { content_type: media_type.as_str(), ..self.outgoing(self.body.clone()) })
            }
            _ => {
                if let Some(body) = self.encoded(object).filter(|_| sent.rest.is_empty()) {
                    let content_type = MediaType::Protobuf.as_str();
                    return Ok(Outgoing { content_type, is_encoded: true, ..self.outgoing(body.into()) });
                }
                let mut body = Vec::with_capacity(self.body.len() + ADMITTED_BYTES);
                serde_json::to_writer(&mut body, &*sent.rest.put_back(object)?).map_err(Status::internal_error)?;
                self.written(body.into())
            }
        }
    }

    /// Encodes the object in protobuf; `None` if the kind is not built-in or the API server behind does not take protobuf.
    fn encoded(&self, object: &Object) -> Option<Vec<u8>> {
        // The scale of a custom resource has a built-in kind, but its handler supports only JSON.
        let is_taken = schema(self.target.resource_kind()).is_some() && self.pipeline.gateway.release.takes_protobuf();
        let GroupVersionKind { group, version, kind } = self.target.kind();
        // The capacity covers the body and typical admission changes, so that the buffer rarely grows.
        let capacity = self.body.len() + ADMITTED_BYTES;
        if is_taken { protobuf::encode(object, group, version, kind, capacity) } else { None }
    }

    /// Builds the patch that turns the stored object into the admitted one, if the stored object still has its version: a merge
    /// patch, or a JSON patch if the admitted object has null fields, which a merge patch cannot express.
    pub(super) fn difference(&self, stored: &Object, admitted: Cow<'_, Object>) -> Result<Outgoing, Status> {
        self.difference_at(stored.resource_version(), stored, admitted)
    }

    /// Builds the same patch for the stored object at this resourceVersion.
    pub(super) fn difference_at(
        &self,
        version: &str,
        stored: &Object,
        admitted: Cow<'_, Object>,
    ) -> Result<Outgoing, Status> {
        let (patch_type, patch) = match merge_diff(stored.fields(), admitted.fields()) {
            Some(mut merge) => {
                if let Some(metadata) = merge.entry("metadata").or_insert_with(|| json!({})).as_object_mut() {
                    metadata.insert("resourceVersion".into(), version.into());
                }
                (PatchType::Merge, Value::Object(merge))
            }
            None => {
                // Replacing the metadata as a whole carries the version along.
                let mut admitted = admitted.into_owned();
                if !admitted.set(&["metadata", "resourceVersion"], version.into()) {
                    return Err(Status::bad_request("metadata is not an object after the patch"));
                }
                (PatchType::Json, replace_fields(stored.fields(), admitted.fields()))
            }
        };
        let mut outgoing = self.written(Bytes::from(serde_json::to_vec(&patch).map_err(Status::internal_error)?))?;
        outgoing.content_type = patch_type.content_type();
        Ok(outgoing)
    }

    /// Returns a URL with those of the client's parameters that have these names.
    pub(super) fn uri_with(&self, path: &str, names: &[&str]) -> Result<Uri, Status> {
        let mut query = form_urlencoded::Serializer::new(String::new());
        let given = self.parts.uri.query().unwrap_or_default();
        query.extend_pairs(names.iter().filter_map(|name| Some((name, query_value(given, name)?))));
        format!("{path}?{}", query.finish()).parse().map_err(Status::internal_error)
    }

    /// Sends a request as a dry run, and reads the answer. A success shows that the caller has the permission for the write.
    pub(super) async fn rehearse(&self, mut outgoing: Outgoing) -> Result<Answer, Status> {
        outgoing.uri = without_wait(self, with_dry_run(&outgoing.uri)?)?;
        let _trying = self.times.begin(Part::DryRun);
        let answer = self.send(outgoing, for_json).await?;
        if answer.status.is_success() {
            self.permission.show();
        }
        Ok(answer)
    }

    /// Turns an answer into a response. The proxy asks for dry runs in JSON: their refusals are converted to the form that the
    /// client accepts.
    pub(super) async fn respond(&self, answer: Answer) -> Result<Response<Body>, Status> {
        let is_json = answer.headers.get(CONTENT_TYPE).is_some_and(|form| form == "application/json");
        let form = response::ResponseForm::of(&self.parts.headers, &self.parts.uri, self.pipeline.media_types);
        if !is_json || answer.status.is_success() || form.is_json() {
            return Ok(answer.into_response());
        }
        // Only a Status repeats the code.
        let is_status = answer.status().is_some_and(|status| status.code == answer.status.as_u16());
        let answer = if is_status { self.refusal_in_accepted_form(answer).await? } else { answer };
        Ok(answer.into_response())
    }

    /// Converts a refusal in JSON to the form that the client accepts.
    async fn refusal_in_accepted_form(&self, refusal: Answer) -> Result<Answer, Status> {
        let Some(status) = refusal.status().filter(|_| !self.accepts_plain_json()) else { return Ok(refusal) };
        let form = response::ResponseForm::of(&self.parts.headers, &self.parts.uri, self.pipeline.media_types);
        let (written, body) = response::status(&status, form).into_parts();
        let body = body::read(body, self.pipeline.limits.response_bytes).await?;
        let mut headers = refusal.headers;
        headers.remove(CONTENT_LENGTH);
        if let Some(content_type) = written.headers.get(CONTENT_TYPE) {
            headers.insert(CONTENT_TYPE, content_type.clone());
        }
        Ok(Answer { status: refusal.status, headers, body, room: None })
    }

    /// Whether JSON is the form that the client prefers.
    pub(super) fn accepts_plain_json(&self) -> bool {
        self.header(ACCEPT).is_none_or(|accept| matches!(accept, "*/*" | "application/json"))
    }

    /// Whether an answer of so many bytes is not compressed.
    pub(super) fn comes_plain(&self, bytes: usize) -> bool {
        self.header(ACCEPT_ENCODING).is_none() || bytes < GZIP_BYTES
    }
}

/// Whether the URL asks for a dry run.
pub(super) fn is_dry_run(uri: &Uri) -> bool {
    query_values(uri.query().unwrap_or_default(), "dryRun").any(|value| value == "All")
}

/// Returns the URL with `dryRun=All`.
pub(super) fn with_dry_run(uri: &Uri) -> Result<Uri, Status> {
    if is_dry_run(uri) { Ok(uri.clone()) } else { with_parameter(uri, "dryRun=All") }
}

/// Returns the URL with one more parameter at the front, because the API server takes the first of several values.
pub(super) fn with_parameter(uri: &Uri, parameter: &str) -> Result<Uri, Status> {
    let query = uri.query().filter(|query| !query.is_empty()).map(|query| format!("&{query}")).unwrap_or_default();
    format!("{}?{parameter}{query}", uri.path()).parse().map_err(Status::internal_error)
}

/// Reduces the accepted encodings to gzip, in which the proxy can read a refusal.
pub(super) fn only_gzip(headers: &mut HeaderMap) {
    if let Some(accepted) = headers.remove(ACCEPT_ENCODING)
        && accepted.to_str().is_ok_and(|accepted| accepted.contains("gzip"))
    {
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    }
}

/// Builds a JSON patch that replaces every top-level field, and removes the missing fields.
fn replace_fields(stored: &Map<String, Value>, admitted: &Map<String, Value>) -> Value {
    let pointer = |key: &str| format!("/{}", key.replace('~', "~0").replace('/', "~1"));
    let gone = stored.keys().filter(|key| !admitted.contains_key(*key));
    let gone = gone.map(|key| json!({"op": "remove", "path": pointer(key)}));
    let there = admitted.iter().map(|(key, value)| json!({"op": "add", "path": pointer(key), "value": value}));
    Value::Array(gone.chain(there).collect())
}

/// Returns a URL with which a write does not wait for initializers.
pub(super) fn without_wait(write: &Write<'_>, uri: Uri) -> Result<Uri, Status> {
    if write.pipeline.keeps_initializers { with_parameter(&uri, "includeUninitialized=true") } else { Ok(uri) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::patch;

    #[test]
    fn a_json_patch_expresses_changes_that_a_merge_patch_cannot() {
        let stored = json!({"metadata": {"name": "a"}, "spec": {"x": 1}, "gone/with~it": 1});
        let admitted = json!({"metadata": {"name": "a"}, "spec": {"x": null}});
        let (old, new) = (stored.as_object().unwrap(), admitted.as_object().unwrap());
        assert_eq!(merge_diff(old, new), None);
        let patch = replace_fields(old, new);
        assert_eq!(patch::apply(PatchType::Json, stored, &patch, None).unwrap(), admitted);
    }

    #[test]
    fn asks_for_a_dry_run_once() {
        let with = |uri: &str| with_dry_run(&uri.parse().unwrap()).unwrap().to_string();
        assert_eq!(with("/a?fieldManager=x"), "/a?dryRun=All&fieldManager=x");
        assert_eq!(with("/a"), "/a?dryRun=All");
        assert_eq!(with("/a?dryRun=All"), "/a?dryRun=All");
    }
}
