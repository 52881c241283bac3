//! Where an answer says that another path has what was asked for (`http.Client`).
//!
//! Only the endpoint itself may be named: Go's client, and so kube-apiserver, would call any server that a webhook names.

use super::endpoint::Endpoint;
use super::request::{Chunks, Target};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, StatusCode};

/// How many requests a call may come to (`defaultCheckRedirect`).
pub const REQUESTS: usize = 10;

/// The request that the answer to `target` asks for, if it does.
///
/// # Errors
/// When it is one to another server.
pub fn follow(
    endpoint: &Endpoint,
    target: &Target,
    status: StatusCode,
    location: Option<&HeaderValue>,
) -> Result<Option<Target>, String> {
    let keeps_body = match status.as_u16() {
        301..=303 => false,
        307 | 308 => true,
        _ => return Ok(None),
    };
    let Some(location) = location.and_then(|location| location.to_str().ok()).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let path = path_at(endpoint, target.path.path(), location)
        .ok_or_else(|| "redirected to another server, which is not asked".to_owned())?;
    let broken = |error| format!("failed to parse Location header \"{location}\": {error}");
    let path = PathAndQuery::from_maybe_shared(path).map_err(broken)?;
    let referer = HeaderValue::try_from(format!("{}{}", endpoint.base(), target.path)).ok();
    Ok(Some(match keeps_body {
        true => Target { path, referer, ..target.clone() },
        false => Target { method: Method::GET, path, body: Chunks::default(), referer },
    }))
}

/// The path and query of a location that is at this endpoint.
fn path_at(endpoint: &Endpoint, from: &str, location: &str) -> Option<String> {
    let location = location.split('#').next().unwrap_or_default();
    let relative = match location.strip_prefix("//").or_else(|| location.strip_prefix("https://")) {
        Some(absolute) => {
            let end = absolute.find(['/', '?']).unwrap_or(absolute.len());
            let (authority, path) = absolute.split_at(end);
            if !endpoint.is_at(authority) {
                return None;
            }
            path
        }
        None if location.split(['/', '?']).next().is_some_and(|first| first.contains(':')) => return None,
        None => location,
    };
    Some(match relative.chars().next() {
        Some('/') => relative.to_owned(),
        None | Some('?') if relative.len() < location.len() => format!("/{relative}"),
        None | Some('?') => format!("{from}{relative}"),
        Some(_) => {
            let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{folder}/{relative}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn followed(status: u16, location: &str) -> Result<Option<String>, String> {
        let endpoint = Endpoint::url("https://a.example/x/y", Vec::new()).unwrap();
        let body = Chunks::new(["b".into(), Bytes::new(), Bytes::new(), Bytes::new()]);
        let target = Target::post(endpoint.path(), 10, body).unwrap();
        let location = HeaderValue::from_str(location).unwrap();
        let next = follow(&endpoint, &target, StatusCode::from_u16(status).unwrap(), Some(&location))?;
        Ok(next.map(|Target { method, path, referer, .. }| {
            assert_eq!(referer.unwrap(), "https://a.example/x/y?timeout=10s");
            format!("{method} {path}")
        }))
    }

    #[test]
    fn a_location_at_the_endpoint_is_asked() {
        for (status, location, want) in [
            (302, "/z", Some("GET /z")),
            (301, "https://a.example/z?q", Some("GET /z?q")),
            (303, "https://a.example:443", Some("GET /")),
            (307, "z", Some("POST /x/z")),
            (308, "//a.example/z#f", Some("POST /z")),
            (307, "?q", Some("POST /x/y?q")),
            (302, "", None),
            (300, "/z", None),
            (304, "/z", None),
            (200, "/z", None),
        ] {
            assert_eq!(followed(status, location).unwrap().as_deref(), want, "{status} {location}");
        }
    }

    #[test]
    fn other_servers_are_not_asked() {
        for location in ["https://b.example/z", "http://a.example/z", "https://a.example:444/", "//b.example", "x:y"] {
            assert!(followed(307, location).is_err(), "{location}");
        }
    }
}
