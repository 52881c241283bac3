//! The pages of the process on its health port, as those of kube-apiserver: `/debug/flags/v`.

use crate::body::{Body, BoxError};
use crate::logging;
use crate::server::health::{Pages, text, with_type};
use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use std::net::IpAddr;

/// The folder of the flags that change at run time (`routes.DebugFlags`).
const FLAGS: &str = "/debug/flags";
const LEVEL: &str = "/debug/flags/v";
/// The page that names the flags (`routes.indexTmpl`).
const INDEX: &str = "<html>\n<head>\n<title>/debug/flags/</title>\n</head>\n<body>\n/debug/flags/<br>\n<br>\nflags:<br>\n<table>\n\
                     <tr>v<br>\n</table>\n<br>\nfull flags configurable<br>\n</body>\n</html>\n";
/// The bytes of the new value of a flag.
const MAX_VALUE_BYTES: usize = 64;

/// The pages of the process.
pub(super) struct ComponentPages {
    /// Whether the pages below `/debug` are served (`--profiling`).
    pub(super) profiling: bool,
}

#[async_trait]
impl Pages for ComponentPages {
    async fn answer(&self, request: Request<Body>, remote: IpAddr) -> Response<Full<Bytes>> {
        // The port has no authentication.
        if !remote.to_canonical().is_loopback() {
            return text(StatusCode::FORBIDDEN, "only for clients of this machine\n".into());
        }
        match request.uri().path() {
            LEVEL => set_level(request).await,
            _ => with_type(StatusCode::OK, "text/html; charset=utf-8", INDEX.into()),
        }
    }

    fn have(&self, path: &str) -> bool {
        self.profiling && path.strip_prefix(FLAGS).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// Sets the level of the log (`routes.StringFlagPutHandler`, `logs.GlogSetter`).
async fn set_level(request: Request<Body>) -> Response<Full<Bytes>> {
    let line = |code, line: String| with_type(code, "text/plain", (line + "\n").into_bytes());
    if *request.method() != Method::PUT {
        return line(StatusCode::NOT_ACCEPTABLE, "unsupported http method".to_owned());
    }
    let value = match value(request.into_body()).await {
        Ok(value) => value,
        Err(why) => return line(StatusCode::BAD_REQUEST, format!("error reading request body: {why}")),
    };
    match logging::set_level(&String::from_utf8_lossy(&value)) {
        Ok(done) => line(StatusCode::OK, done),
        Err(why) => line(StatusCode::BAD_REQUEST, why.to_string()),
    }
}

/// The new value of a flag.
async fn value(mut body: Body) -> Result<Vec<u8>, BoxError> {
    let mut value = Vec::new();
    while let Some(frame) = body.frame().await {
        value.extend_from_slice(&frame?.into_data().unwrap_or_default());
        if value.len() > MAX_VALUE_BYTES {
            return Err("the value is too long".into());
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::full;

    async fn answer(method: Method, path: &str, body: &str, remote: &str) -> (u16, String) {
        let request = Request::builder().method(method).uri(path).body(full(body.to_owned())).unwrap();
        let response = ComponentPages { profiling: true }.answer(request, remote.parse().unwrap()).await;
        let code = response.status().as_u16();
        (code, String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap())
    }

    /// Compares with the answers of a kube-apiserver 1.36.3.
    #[tokio::test]
    async fn the_level_of_the_log_is_set_as_in_kube_apiserver() {
        for (method, body, code, text) in [
            (Method::PUT, "0", 200, "successfully set klog.logging.verbosity to 0\n"),
            (Method::PUT, "x", 400, "strconv.ParseUint: parsing \"x\": invalid syntax\n"),
            (Method::PUT, "", 400, "strconv.ParseUint: parsing \"\": invalid syntax\n"),
            (Method::GET, "", 406, "unsupported http method\n"),
            (Method::POST, "3", 406, "unsupported http method\n"),
        ] {
            assert_eq!(answer(method, LEVEL, body, "127.0.0.1").await, (code, text.to_owned()), "{body}");
        }
        assert_eq!(answer(Method::PUT, LEVEL, &"1".repeat(MAX_VALUE_BYTES + 1), "::1").await.0, 400);
        assert_eq!(answer(Method::GET, FLAGS, "", "::1").await, (200, INDEX.to_owned()));
    }

    #[tokio::test]
    async fn a_client_of_another_machine_sets_nothing() {
        for remote in ["10.0.0.1", "2001:db8::1", "::ffff:10.0.0.1"] {
            assert_eq!(answer(Method::PUT, LEVEL, "4", remote).await.0, 403, "{remote}");
        }
        assert_eq!(answer(Method::PUT, LEVEL, "0", "::ffff:127.0.0.1").await.0, 200);
    }

    #[test]
    fn without_profiling_there_is_no_page_below_debug() {
        for path in [FLAGS, LEVEL, "/debug/flags/"] {
            assert!(ComponentPages { profiling: true }.have(path) && !ComponentPages { profiling: false }.have(path));
        }
        assert!(!ComponentPages { profiling: true }.have("/debug/flagsx"));
    }
}
