//! The upstream API server's metrics, which may be long: they are read line by line, and not kept.

use super::{SharedTransport, client};
use crate::body::{chain, empty};
use crate::server::health::Unhealthy;
use http::{HeaderValue, Request, header};
use http_body_util::BodyExt;

const PATH: &str = "/metrics";
/// Bytes of the metrics that are read.
const BYTES: usize = 256 << 20;
/// Bytes of a line that are read; the rest of the line is skipped.
const LINE_BYTES: usize = 64 << 10;

/// Calls `each` for every line of the text.
///
/// # Errors
/// If the API server does not answer with metrics, or with more than 256 MiB.
pub(crate) async fn metric_lines(transport: &SharedTransport, mut each: impl FnMut(&[u8])) -> Result<(), Unhealthy> {
    let mut request = Request::new(empty());
    *request.uri_mut() = http::Uri::from_static(PATH);
    request.headers_mut().insert(header::USER_AGENT, HeaderValue::from_static(client::USER_AGENT));
    request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("text/plain"));
    let response = transport.send(request).await.map_err(|error| Unhealthy::of(chain(&error)))?;
    if !response.status().is_success() {
        return Err(Unhealthy::of(format_args!("{PATH} is answered with {}", response.status().as_u16())));
    }
    let mut body = response.into_body();
    let (mut line, mut read) = (Vec::new(), 0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(Unhealthy::of)?;
        let Some(data) = frame.data_ref() else { continue };
        read += data.len();
        if read > BYTES {
            return Err(Unhealthy::of(format_args!("{PATH} is longer than {BYTES} bytes")));
        }
        for byte in data {
            match byte {
                b'\n' => {
                    each(&line);
                    line.clear();
                }
                byte if line.len() < LINE_BYTES => line.push(*byte),
                _ => {}
            }
        }
    }
    each(&line);
    Ok(())
}
