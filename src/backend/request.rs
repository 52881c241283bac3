//! The requests to an endpoint: headers made once, and a body in pieces that other requests share.

use super::endpoint::Endpoint;
use super::identity::Identity;
use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HOST, REFERER, USER_AGENT};
use http::uri::{Authority, Parts, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, Uri};
use http_body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The parts that all requests to an endpoint share.
pub(super) struct Template {
    authority: Authority,
    headers: HeaderMap,
}

/// One request, for any connection.
#[derive(Clone)]
pub(super) struct Target {
    /// POST; or GET after a redirect that requires it.
    pub(crate) method: Method,
    /// The path at the endpoint.
    pub(crate) path: PathAndQuery,
    pub(crate) body: Chunks,
    /// The URL that redirected here.
    pub(crate) referer: Option<HeaderValue>,
}

impl Target {
    /// Creates the request of a review, with the timeout in its query if there is one.
    ///
    /// # Errors
    /// If no request can have the path.
    pub(super) fn post(path: &str, timeout_seconds: Option<u64>, body: Chunks) -> Result<Self, http::Error> {
        let query = timeout_seconds.map(|seconds| format!("?timeout={seconds}s")).unwrap_or_default();
        let path = PathAndQuery::from_maybe_shared(format!("{path}{query}"))?;
        Ok(Self { method: Method::POST, path, body, referer: None })
    }
}

impl Template {
    /// Creates the template for this identity's unchanging headers.
    ///
    /// # Errors
    /// If no request can have the endpoint's host.
    pub(super) fn new(
        endpoint: &Endpoint,
        identity: &Identity,
        agent: &'static str,
        compression: bool,
    ) -> Result<Self, http::Error> {
        let authority = Authority::try_from(endpoint.authority())?;
        let host = HeaderValue::try_from(endpoint.authority())?;
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(HOST, host);
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, */*"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if compression {
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        }
        identity.add_to(&mut headers);
        Ok(Self { authority, headers })
    }

    /// Builds the request for HTTP/1.1 or HTTP/2; `authorization` replaces the template's header.
    pub(super) fn request(
        &self,
        target: &Target,
        is_http2: bool,
        authorization: Option<&HeaderValue>,
    ) -> Result<Request<Chunks>, http::Error> {
        let mut headers = self.headers.clone();
        let uri = if is_http2 {
            // HTTP/2 has the host in the URI.
            headers.remove(HOST);
            let mut parts = Parts::default();
            parts.scheme = Some(Scheme::HTTPS);
            parts.authority = Some(self.authority.clone());
            parts.path_and_query = Some(target.path.clone());
            Uri::from_parts(parts)?
        } else {
            Uri::from(target.path.clone())
        };
        if let Some(authorization) = authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        if let Some(referer) = &target.referer {
            headers.insert(REFERER, referer.clone());
        }
        if target.body.is_empty() {
            headers.remove(CONTENT_TYPE);
        }
        let mut request = Request::new(target.body.clone());
        *request.method_mut() = target.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        Ok(request)
    }
}

/// A body in pieces that are shared with other requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Chunks {
    chunks: [Bytes; 4],
    next: usize,
}

impl Chunks {
    /// Creates a body of these pieces.
    pub(super) fn new(chunks: [Bytes; 4]) -> Self {
        Self { chunks, next: 0 }
    }

    fn is_empty(&self) -> bool {
        self.chunks.iter().all(Bytes::is_empty)
    }
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Self { chunks, next } = &mut *self;
        while let Some(chunk) = chunks.get_mut(*next) {
            *next += 1;
            if !chunk.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(std::mem::take(chunk)))));
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.chunks.iter().skip(self.next).all(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        let left = self.chunks.iter().skip(self.next).map(|chunk| chunk.len() as u64).sum();
        SizeHint::with_exact(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn a_body_is_its_pieces_without_the_empty_ones() {
        let body = Chunks::new(["a".into(), Bytes::new(), "bc".into(), Bytes::new()]);
        assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(3), false));
        let mut frames = Vec::new();
        let mut sent = body.clone();
        while let Some(Ok(frame)) = sent.frame().await {
            frames.push(frame.into_data().unwrap());
        }
        assert_eq!(frames, ["a", "bc"]);
        assert!(sent.is_end_stream() && Chunks::default().is_end_stream());
        assert_eq!(body.size_hint().exact(), Some(3));
    }

    #[test]
    fn a_request_without_a_timeout_has_no_query() {
        let with = |seconds| Target::post("/p", seconds, Chunks::default()).unwrap().path.to_string();
        assert_eq!((with(None), with(Some(3))), ("/p".to_owned(), "/p?timeout=3s".to_owned()));
    }

    #[test]
    fn the_host_is_a_header_or_a_part_of_the_uri() {
        let endpoint = Endpoint::service("n", "s", 443, "/p", Vec::new());
        let template = Template::new(&endpoint, &Identity::default(), "agent", true).unwrap();
        let target = Target::post(
            endpoint.path(),
            Some(10),
            Chunks::new(["{}".into(), Bytes::new(), Bytes::new(), Bytes::new()]),
        )
        .unwrap();
        let older = template.request(&target, false, None).unwrap();
        assert_eq!(
            (older.uri().to_string(), &older.headers()[HOST]),
            ("/p?timeout=10s".into(), &HeaderValue::from_static("s.n.svc:443"))
        );
        assert_eq!(
            (&older.headers()[USER_AGENT], &older.headers()[CONTENT_TYPE]),
            (&HeaderValue::from_static("agent"), &HeaderValue::from_static("application/json"))
        );
        let newer = template.request(&target, true, Some(&HeaderValue::from_static("Bearer t"))).unwrap();
        assert_eq!(newer.uri().to_string(), "https://s.n.svc:443/p?timeout=10s");
        assert!(!newer.headers().contains_key(HOST) && newer.headers()[AUTHORIZATION] == "Bearer t");
    }
}
