//! The path to the API server: streamed requests of callers, and the proxy's own requests during admission.

use super::ready::{AnswerRoom, ReadyAnswers};
use crate::body::{Body, Pieces, UNCOUNTED_BYTES, Weight, full, held};
use crate::config::Limits;
use crate::object::{Object, cbor, decode, protobuf};
use crate::processor;
use crate::sharer::{Sharer, Sharing};
use crate::shares::{Growing, Shares};
use crate::status::Status;
use crate::upstream::{ClientCredentials, Forwarder, Release, SharedTransport, UpstreamError};
use crate::user::UserInfo;
use bytes::Bytes;
use flate2::read::GzDecoder;
use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, TRANSFER_ENCODING};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body::Body as _;
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::io::Read;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// The user on whose behalf a request is sent.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    /// The effective user, after impersonation.
    pub(crate) user: Arc<UserInfo>,
    /// The client's credentials, if they go upstream unchanged (`passthrough`).
    pub(crate) credentials: Option<ClientCredentials>,
    /// Whether the request is the proxy's own: admitted as the user's, and sent with the proxy's credentials.
    pub(crate) is_proxy: bool,
}

/// The path to the API server.
pub(super) struct Gateway {
    /// The transport of the proxy's own requests.
    pub(crate) transport: SharedTransport,
    /// The forwarder of callers' requests.
    pub(crate) forwarder: Forwarder,
    /// The bytes that an answer may have if the proxy reads it as a whole.
    pub(crate) response_bytes: usize,
    /// The memory for answers that the proxy reads as a whole during admission.
    pub(crate) room: Room,
    /// The release of the API server.
    pub(crate) release: Arc<Release>,
}

/// The memory that all answers read as a whole may take together.
pub(super) struct WholeAnswers {
    shares: Arc<Shares>,
    /// The memory for answers to writes. A write holds a stored object while it reads answers, so they have a memory of their own: no
    /// write waits for room that other writes hold while they wait as well.
    answers: Arc<Shares>,
    /// The answers to writes that their clients have not read.
    ready: Arc<ReadyAnswers>,
    /// The memory for answers that are read for the audit log.
    audited: Arc<Shares>,
    page_bytes: usize,
    wait: Duration,
}

impl WholeAnswers {
    /// Creates the memory of a process from the limits.
    pub(super) fn new(limits: &Limits) -> Arc<Self> {
        let shares = |bytes: usize| Shares::in_halves(bytes / KIBIBYTE);
        Arc::new(Self {
            shares: shares(limits.whole_answers_bytes),
            answers: shares(limits.write_answers_bytes),
            ready: ReadyAnswers::new(limits.unread_answer_timeout, limits.given_up_answers),
            audited: shares(limits.audited_answers_bytes),
            page_bytes: limits.page_bytes.min(limits.response_bytes),
            wait: limits.connection_wait_timeout,
        })
    }
}

/// The room of one tenant in the memory for answers.
pub(super) struct Room {
    all: Arc<WholeAnswers>,
    sharing: Sharing,
}

impl Room {
    /// Creates the room of a tenant. All users of one of several tenants together have at most as much as one user.
    pub(super) fn new(all: Arc<WholeAnswers>, sharing: Sharing) -> Self {
        Self { all, sharing }
    }

    /// The answers to writes that their clients have not read.
    pub(super) fn ready(&self) -> &Arc<ReadyAnswers> {
        &self.all.ready
    }

    /// The bytes of one page of a list.
    pub(super) fn page_bytes(&self) -> usize {
        self.all.page_bytes
    }

    /// Takes the room of an answer of at most `bytes` that is read for the audit log; `None` if other answers hold the room for longer than
    /// the wait timeout. Clients that do not read their answers hold room, so that a longer wait would let them delay the answers of others.
    pub(super) async fn take_audited(&self, sharer: &Sharer, bytes: usize) -> Option<Growing> {
        let mut share = Growing::default();
        let taking = share.grow_to(&self.all.audited, sharer, Weight::default().of(bytes).div_ceil(KIBIBYTE));
        tokio::time::timeout(self.all.wait, taking).await.ok()?;
        Some(share)
    }

    /// Reads an object of at most `limit` bytes for admission, which is decoded as a whole. If its weight is more than [`FREE_BYTES`], it
    /// has the returned part of the user's share; of objects that need more than one user may have, one is in memory at a time. Members of
    /// `system:masters` have no share and no bound but `limit`.
    ///
    /// # Errors
    /// 413 if the body is longer than `limit`, 429 if other requests hold the memory for longer than the wait timeout.
    async fn read(&self, body: Body, limit: usize, user: &Arc<UserInfo>) -> Result<(Bytes, Growing), Status> {
        self.take(&self.all.shares, body, limit, user, Use::Decoded).await
    }

    /// As [`Self::read`], of a list whose items are decoded one by one. The bytes hold the share.
    ///
    /// # Errors
    /// As [`Self::read`].
    async fn read_list(&self, body: Body, limit: usize, user: &Arc<UserInfo>) -> Result<Bytes, Status> {
        let (bytes, share) = self.take(&self.all.shares, body, limit, user, Use::Text).await?;
        Ok(if share.is_empty() { bytes } else { held(bytes, share) })
    }

    /// As [`Self::read`], of an answer to a write, whose object is not kept in memory. The answer waits for room until the deadline of the
    /// write, since 429 would say that nothing was stored; meanwhile answers that clients do not read give way.
    ///
    /// # Errors
    /// 413 if the body is longer than `limit`.
    pub(super) async fn read_answer(
        &self,
        body: Body,
        limit: usize,
        user: &Arc<UserInfo>,
    ) -> Result<(Bytes, Option<Arc<AnswerRoom>>), Status> {
        let (bytes, share) = self.take(&self.all.answers, body, limit, user, Use::Answer).await?;
        let share = Some(share).filter(|share| !share.is_empty());
        let sharer = || self.sharing.of(user);
        Ok((bytes, share.map(|share| Arc::new(AnswerRoom::new(share, sharer(), self.all.ready.clone())))))
    }

    async fn take(
        &self,
        shares: &Arc<Shares>,
        mut body: Body,
        limit: usize,
        user: &Arc<UserInfo>,
        of: Use,
    ) -> Result<(Bytes, Growing), Status> {
        let too_large = || Status::too_large(&format!("limit is {limit}"));
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if announced > limit {
            return Err(too_large());
        }
        let sharer = self.sharing.of(user);
        let is_bounded = self.sharing != Sharing::ByUser || !user.is_privileged();
        let (mut share, mut room, mut weight) = (Growing::by_turns(), FREE_BYTES, Weight::default());
        let mut pieces = Pieces::default();
        while let Some(frame) = body.frame().await {
            let data = frame.map_err(|error| Status::plain(error.to_string()))?.into_data().unwrap_or_default();
            if pieces.len() + data.len() > limit {
                return Err(too_large());
            }
            if is_bounded {
                weight.add(&data);
                let needed = of.bytes(weight, announced);
                if needed > room {
                    // At least doubles, as a growing buffer does.
                    room = needed.max(room * 2);
                    let count = room.div_ceil(KIBIBYTE);
                    let no_room = |_| Status::too_many_requests("there is no room in memory for the stored object");
                    match of {
                        Use::Decoded => {
                            let taking = share.grow_beyond(shares, &sharer, count);
                            tokio::time::timeout(self.all.wait, taking).await.map_err(no_room)?;
                        }
                        Use::Text => {
                            let taking = share.grow_to(shares, &sharer, count);
                            tokio::time::timeout(self.all.wait, taking).await.map_err(no_room)?;
                        }
                        Use::Answer => self.grow_answer(&mut share, &sharer, count).await,
                    }
                }
            }
            pieces.push(data, body.size_hint().lower());
        }
        share.complete();
        processor::expect(pieces.len()).await;
        Ok((pieces.into_bytes(), share))
    }

    /// Waits until the share of an answer has `count` of the room. Answers that their clients do not read give way: those of the sharer itself
    /// if it has all that one sharer may have.
    async fn grow_answer(&self, share: &mut Growing, sharer: &Sharer, count: usize) {
        let more = count.saturating_sub(share.count());
        let mut growing = pin!(share.grow_to(&self.all.answers, sharer, count));
        while tokio::time::timeout(self.all.ready.patience(), growing.as_mut()).await.is_err() {
            let only = self.all.answers.is_beyond(sharer, more).then_some(sharer);
            self.all.ready.give_way(only, more);
        }
    }
}

#[cfg(test)]
impl Room {
    /// The room of the only tenant of a process.
    pub(super) fn alone(limits: &Limits) -> Self {
        Self::new(WholeAnswers::new(limits), Sharing::ByUser)
    }
}

/// The use of an answer.
#[derive(Clone, Copy)]
enum Use {
    /// The answer is decoded as a whole.
    Decoded,
    Text,
    /// The client gets the answer.
    Answer,
}

impl Use {
    /// The memory of an answer that has arrived in part.
    fn bytes(self, weight: Weight, announced: usize) -> usize {
        match self {
            Self::Decoded => weight.of(announced),
            Self::Text | Self::Answer => announced.max(weight.bytes()),
        }
    }
}

const KIBIBYTE: usize = 1024;
/// The memory of an answer that needs no share: the number of seats bounds the number of such answers.
pub(super) const FREE_BYTES: usize = UNCOUNTED_BYTES;

/// The bytes that a compressed Status may have once decompressed.
const STATUS_BYTES: u64 = 1024 * 1024;

/// An answer that was read as a whole.
#[derive(Clone)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// The room of a long answer to a write.
    pub(super) room: Option<Arc<AnswerRoom>>,
}

impl Answer {
    /// Returns the object in the answer.
    pub(super) fn object(&self) -> Result<Object, Status> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Status::internal_error(format!("the answer of the API server is not an object: {error}")))
    }

    /// Returns the answer with another object, in JSON with the same layout.
    pub(super) fn with_object(&self, object: &Object) -> Result<Self, Status> {
        let is_pretty = self.body.starts_with(b"{\n");
        let body = if is_pretty { serde_json::to_vec_pretty(object) } else { serde_json::to_vec(object) };
        let mut body = body.map_err(Status::internal_error)?;
        if self.body.ends_with(b"\n") {
            body.push(b'\n');
        }
        let mut headers = self.headers.clone();
        headers.remove(CONTENT_LENGTH);
        Ok(Self { status: self.status, headers, body: body.into(), room: self.room.clone() })
    }

    /// Returns the Status in the answer, in any form that a client may accept.
    pub(super) fn status(&self) -> Option<Status> {
        let body = self.plain_body()?;
        match body.first()? {
            b'{' => serde_json::from_slice(&body).ok(),
            _ if cbor::is_cbor(&body) => serde_json::from_value(cbor::decode(&body).ok()??.into()).ok(),
            _ => match protobuf::open(&body) {
                Ok(envelope) => protobuf::status(&envelope).ok(),
                Err(_) => serde_json::from_value(decode::yaml(&body).ok()?.value).ok(),
            },
        }
    }

    /// Returns the body without the compression that the client may have asked for.
    fn plain_body(&self) -> Option<Cow<'_, [u8]>> {
        match self.headers.get(CONTENT_ENCODING).map(|encoding| encoding.as_bytes()) {
            None => Some(Cow::Borrowed(&self.body)),
            Some(b"gzip") => {
                let mut plain = Vec::new();
                GzDecoder::new(&*self.body).take(STATUS_BYTES).read_to_end(&mut plain).ok()?;
                Some(Cow::Owned(plain))
            }
            Some(_) => None,
        }
    }

    /// Turns the answer into a response for the client.
    pub(super) fn into_response(self) -> Response<Body> {
        let mut response = match self.room {
            Some(room) => {
                let mut response = Response::new(full(held(self.body, room.clone())));
                response.extensions_mut().insert(room);
                response
            }
            None => Response::new(full(self.body)),
        };
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response.headers_mut().remove(TRANSFER_ENCODING);
        response
    }

    /// Returns the refusal in the answer, with the API server's text.
    pub(super) fn into_refusal(self) -> Status {
        self.status().unwrap_or_else(|| {
            let code = self.status.as_u16();
            Status::failure(code, "", format!("the API server answered {code}"))
        })
    }
}

impl Gateway {
    /// Forwards a request as the caller's, and streams both bodies.
    ///
    /// # Errors
    /// If the API server does not answer.
    pub(super) async fn stream(&self, request: Request<Body>, caller: &Caller) -> Result<Response<Body>, Status> {
        match caller.is_proxy {
            true => self.transport.send(request).await.map_err(unavailable),
            false => self.forwarder.forward(request, &caller.user, caller.credentials.as_ref()).await,
        }
    }

    /// Sends a request with its body as the caller's, and reads the answer as a whole.
    ///
    /// # Errors
    /// If the API server does not answer, or its answer is too long.
    pub(super) async fn ask_as(&self, caller: &Caller, request: Request<Body>) -> Result<Answer, Status> {
        let response = self.stream(request, caller).await?;
        self.collect(response, caller).await
    }

    /// Sends a request as the proxy's own for a caller, and reads the answer as a whole.
    ///
    /// # Errors
    /// If the API server does not answer, or its answer is too long.
    pub(super) async fn ask_as_proxy(&self, request: Request<Body>, caller: &Caller) -> Result<Answer, Status> {
        let response = self.transport.send(request).await.map_err(unavailable)?;
        self.collect(response, caller).await
    }

    /// Reads an object for admission with the proxy's credentials, because a caller who may change an object may lack the
    /// permission to read it. In `passthrough`, where the proxy has no permissions, the caller's credentials are used.
    ///
    /// # Errors
    /// If the API server does not answer, or refuses with a code other than 404.
    pub(super) async fn read(&self, path: &str, caller: &Caller) -> Result<Option<Object>, Status> {
        Ok(self.read_holding(path, caller).await?.0)
    }

    /// As [`Self::read`], and returns the room that the object has.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(super) async fn read_holding(&self, path: &str, caller: &Caller) -> Result<(Option<Object>, Growing), Status> {
        let (answer, room) = self.read_own(path, caller).await?;
        match answer.status {
            StatusCode::OK => Ok((Some(answer.object()?), room)),
            StatusCode::NOT_FOUND => Ok((None, room)),
            _ => Err(answer.into_refusal()),
        }
    }

    /// Reads a document with the credentials that [`Self::read`] uses.
    ///
    /// # Errors
    /// If the API server does not answer, or refuses; 404 is an error too.
    pub(super) async fn read_document<T: DeserializeOwned>(&self, path: &str, caller: &Caller) -> Result<T, Status> {
        let (answer, _room) = self.read_own(path, caller).await?;
        match answer.status {
            StatusCode::OK => serde_json::from_slice(&answer.body).map_err(Status::internal_error),
            _ => Err(answer.into_refusal()),
        }
    }

    /// Reads a list with the credentials that [`Self::read`] uses; `None` if the list has more bytes than `limit`.
    ///
    /// # Errors
    /// If the API server does not answer, or refuses.
    pub(super) async fn read_list(&self, path: &str, limit: usize, caller: &Caller) -> Result<Option<Answer>, Status> {
        let response = self.own(path, HeaderMap::new(), caller).await?;
        let (parts, stream) = response.into_parts();
        let body = self.room.read_list(stream, limit, &caller.user).await;
        match body.map(|body| Answer { status: parts.status, headers: parts.headers, body, room: None }) {
            Err(why) if why.code == 413 => Ok(None),
            Err(why) => Err(unreadable(why)),
            Ok(answer) if answer.status == StatusCode::OK => Ok(Some(answer)),
            Ok(answer) if answer.status == StatusCode::NOT_FOUND => Err(Status::no_such_path()),
            Ok(answer) => Err(answer.into_refusal()),
        }
    }

    /// Opens a list with the credentials that [`Self::read`] uses and these `Accept` headers; the body streams.
    ///
    /// # Errors
    /// If the API server does not answer, or refuses.
    pub(super) async fn open_list(
        &self,
        path: &str,
        accepted: HeaderMap,
        caller: &Caller,
    ) -> Result<Response<Body>, Status> {
        let response = self.own(path, accepted, caller).await?;
        match response.status() {
            StatusCode::OK => Ok(response),
            StatusCode::NOT_FOUND => Err(Status::no_such_path()),
            _ => Err(self.collect(response, caller).await?.into_refusal()),
        }
    }

    async fn read_own(&self, path: &str, caller: &Caller) -> Result<(Answer, Growing), Status> {
        let (parts, stream) = self.own(path, HeaderMap::new(), caller).await?.into_parts();
        let (body, room) = self.room.read(stream, self.response_bytes, &caller.user).await.map_err(unreadable)?;
        Ok((Answer { status: parts.status, headers: parts.headers, body, room: None }, room))
    }

    /// Sends a read of the proxy's own. The answer is in JSON, unless the headers have an `Accept`.
    async fn own(&self, path: &str, headers: HeaderMap, caller: &Caller) -> Result<Response<Body>, Status> {
        let mut request = Request::new(full(Bytes::new()));
        *request.uri_mut() = path.parse::<Uri>().map_err(|_| Status::no_such_path())?;
        *request.headers_mut() = headers;
        request.headers_mut().entry(ACCEPT).or_insert(HeaderValue::from_static("application/json"));
        if let Some(credentials) = &caller.credentials {
            credentials.write_to(request.headers_mut());
            request.extensions_mut().insert(credentials.clone());
        }
        self.transport.send(request).await.map_err(unavailable)
    }

    /// Reads an answer to a write as a whole.
    ///
    /// # Errors
    /// If the answer breaks off, or is too long.
    pub(super) async fn collect(&self, response: Response<Body>, caller: &Caller) -> Result<Answer, Status> {
        let (parts, stream) = response.into_parts();
        let read = self.room.read_answer(stream, self.response_bytes, &caller.user);
        let (body, room) = read.await.map_err(unreadable)?;
        Ok(Answer { status: parts.status, headers: parts.headers, body, room })
    }
}

fn unreadable(why: Status) -> Status {
    if why.code == 429 {
        return why;
    }
    Status::internal_error(format!("the API server's answer could not be read: {why}"))
}

/// Builds a request with the caller's headers and another body.
pub(super) fn with_body(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    content_type: &'static str,
    body: Bytes,
) -> Request<Body> {
    let mut request = Request::new(());
    *request.method_mut() = method.clone();
    *request.uri_mut() = uri.clone();
    *request.headers_mut() = headers.clone();
    let headers = request.headers_mut();
    headers.remove(TRANSFER_ENCODING);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    request.map(|()| full(body))
}

/// Removes CBOR from the accepted media types, because a kube-apiserver without `CBORServingAndStorage` does not know it. A
/// client that accepts only CBOR is refused earlier.
pub(super) fn without_cbor(headers: &mut HeaderMap) {
    let is_cbor = |range: &str| {
        let media_type = range.split(';').next().unwrap_or_default().trim();
        ["application/cbor", "application/cbor-seq"].iter().any(|cbor| media_type.eq_ignore_ascii_case(cbor))
    };
    let accepted: Vec<String> =
        headers.get_all(ACCEPT).iter().filter_map(|value| Some(value.to_str().ok()?.to_owned())).collect();
    let ranges = || accepted.iter().flat_map(|value| value.split(','));
    if !ranges().any(is_cbor) {
        return;
    }
    let others: Vec<&str> = ranges().filter(|range| !is_cbor(range)).map(str::trim).collect();
    if let (false, Ok(others)) = (others.is_empty(), HeaderValue::try_from(others.join(", "))) {
        headers.insert(ACCEPT, others);
    }
}

/// The Status for the client if the API server does not answer.
pub(super) fn unavailable(error: UpstreamError) -> Status {
    tracing::warn!(%error, "the API server did not answer");
    match error {
        UpstreamError::Timeout => Status::timeout("the API server did not answer in time"),
        UpstreamError::Outside => Status::no_such_path(),
        UpstreamError::Unreachable(_) => Status::service_unavailable("the API server behind is not reachable"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conflict(body: &'static [u8]) -> Answer {
        Answer { status: StatusCode::CONFLICT, headers: HeaderMap::new(), body: Bytes::from_static(body), room: None }
    }

    #[test]
    fn answers_are_not_asked_for_in_cbor() {
        for (accepted, forwarded) in [
            (&["application/cbor, application/json"][..], &["application/json"][..]),
            (&["application/json;q=0.9,Application/CBOR; q=1,*/*"], &["application/json;q=0.9, */*"]),
            (&["application/cbor", "application/yaml"], &["application/yaml"]),
            (&["application/cbor"], &["application/cbor"]),
            (&["application/json", "text/html"], &["application/json", "text/html"]),
            (&[], &[]),
        ] {
            let mut headers = HeaderMap::new();
            for value in accepted {
                headers.append(ACCEPT, HeaderValue::from_static(value));
            }
            without_cbor(&mut headers);
            assert_eq!(headers.get_all(ACCEPT).iter().collect::<Vec<_>>(), forwarded, "{accepted:?}");
        }
    }

    #[test]
    fn a_refusal_is_understood_in_every_form_that_a_client_accepts() {
        let protobuf = b"k8s\0\x0a\x0c\x0a\x02v1\x12\x06Status\x12\x17\x0a\x00\x12\x01F\x22\x08Conflict\x2a\x03\x22\x01\x0a\x30\x99\x03";
        let protobuf: &[u8] = &protobuf[..];
        for body in [&br#"{"kind":"Status","reason":"Conflict"}"#[..], b"kind: Status\nreason: Conflict\n"] {
            assert_eq!(conflict(body).status().map(|status| status.reason).as_deref(), Some("Conflict"));
        }
        let status =
            serde_json::json!({"kind": "Status", "reason": "Conflict", "details": {"causes": [{}]}, "code": 409});
        let in_cbor = cbor::encode(&status);
        let read = Answer { body: in_cbor.into(), ..conflict(b"") }.status().unwrap();
        assert_eq!((read.reason.as_str(), read.code, read.details.unwrap().causes.len()), ("Conflict", 409, 1));
        let well_formed = b"k8s\0\x0a\x0c\x0a\x02v1\x12\x06Status\x12\x18\x0a\x00\x12\x01F\x22\x08Conflict\x2a\x04\x22\x02\x0a\x00\x30\x99\x03";
        let status = conflict(well_formed).status().unwrap();
        assert_eq!((status.reason.as_str(), status.code), ("Conflict", 409));
        assert_eq!(status.details.unwrap().causes.len(), 1);
        let gzipped = |body: &[u8]| {
            let mut packed = Vec::new();
            flate2::read::GzEncoder::new(body, flate2::Compression::fast()).read_to_end(&mut packed).unwrap();
            let headers = HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static("gzip"))]);
            Answer { headers, body: packed.into(), ..conflict(b"") }
        };
        assert_eq!(
            gzipped(br#"{"reason":"Conflict"}"#).status().map(|status| status.reason).as_deref(),
            Some("Conflict")
        );
        assert_eq!(gzipped(well_formed).status().map(|status| status.code), Some(409));
        assert!(gzipped(&vec![b' '; STATUS_BYTES as usize + 1]).status().is_none());
        let broken = conflict(protobuf);
        assert!(broken.status().is_none());
        assert!(conflict(b"").status().is_none());
    }
}
