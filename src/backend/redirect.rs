//! Redirects (`http.Client`): followed as Go's client does, also to another server, with the same credentials and the same CA bundle
//! there.

use super::endpoint::{Endpoint, InvalidUrl};
use super::request::{Chunks, Target};
use http::header::LOCATION;
use http::response::Parts;
use http::uri::{InvalidUri, PathAndQuery};
use http::{HeaderValue, Method};

/// The number of requests that a call may send (`defaultCheckRedirect`).
const REQUESTS: usize = 10;

/// The request that an answer redirects to.
pub(super) struct Redirected {
    /// The server, if it is another than the one that answered.
    pub(crate) elsewhere: Option<Endpoint>,
    /// The request.
    pub(crate) target: Target,
}

/// The reason why a redirect cannot be followed, with Go's text.
#[derive(Debug, thiserror::Error)]
pub(super) enum InvalidRedirect {
    /// The location in the answer from this URL is invalid.
    #[error("Post \"{from}\": failed to parse Location header \"{location}\": {why}")]
    Location { from: String, location: String, why: InvalidLocation },
    /// The location names no server that could be called.
    #[error("Post \"{location}\": {why}")]
    Server { location: String, why: NoServer },
    /// The call has sent so many requests already.
    #[error("Post \"{location}\": stopped after {requests} redirects")]
    TooMany { location: String, requests: usize },
}

/// The reason why a location is invalid.
#[derive(Debug, thiserror::Error)]
pub(super) enum InvalidLocation {
    /// The location is no URL.
    #[error("parse \"{location}\": {why}")]
    Relative { location: String, why: InvalidReference },
    /// The path is invalid.
    #[error(transparent)]
    Path(InvalidUri),
    /// The server is invalid.
    #[error(transparent)]
    Server(InvalidUrl),
}

/// The reason why a text is no reference to a URL (`url.Parse`).
#[derive(Debug, thiserror::Error)]
pub(super) enum InvalidReference {
    #[error("missing protocol scheme")]
    NoScheme,
    #[error("first path segment in URL cannot contain colon")]
    Colon,
}

/// The reason why a URL names no server.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoServer {
    /// The scheme is not one of HTTP.
    #[error("unsupported protocol scheme \"{0}\"")]
    Scheme(String),
    /// There is no host.
    #[error("http: no Host in request URL")]
    NoHost,
}

/// Returns the request that the head of the answer to `target` redirects to, if any. `requests` counts the requests of the call so far.
///
/// # Errors
/// If the redirect is invalid, or one too many.
pub(super) fn follow(
    endpoint: &Endpoint,
    target: &Target,
    answer: &Parts,
    requests: usize,
) -> Result<Option<Redirected>, InvalidRedirect> {
    let keeps_body = match answer.status.as_u16() {
        301..=303 => false,
        307 | 308 => true,
        _ => return Ok(None),
    };
    let location = answer.headers.get(LOCATION).and_then(|location| location.to_str().ok());
    let Some(location) = location.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let from = format!("{}{}", endpoint.base(), target.path);
    let to = || location.to_owned();
    let broken = |why| InvalidRedirect::Location { from: from.clone(), location: to(), why };
    let (server, path) = resolve(location, &target.path).map_err(|why| match why {
        Unusable::Location(why) => broken(InvalidLocation::Relative { location: to(), why }),
        Unusable::Url(why) => InvalidRedirect::Server { location: to(), why },
    })?;
    if requests >= REQUESTS {
        return Err(InvalidRedirect::TooMany { location: to(), requests });
    }
    let path = PathAndQuery::from_maybe_shared(path).map_err(|why| broken(InvalidLocation::Path(why)))?;
    let server = server.map(|(scheme, authority)| {
        let is_plain = scheme.map_or(endpoint.is_plain(), |scheme| scheme == "http");
        Endpoint::server_at(is_plain, authority).map_err(|why| broken(InvalidLocation::Server(why)))
    });
    let elsewhere = server.transpose()?.filter(|server| !server.is_same_server(endpoint));
    let leaves_tls = !endpoint.is_plain() && elsewhere.as_ref().is_some_and(Endpoint::is_plain);
    let referer = if leaves_tls { None } else { HeaderValue::try_from(from).ok() };
    let target = match keeps_body {
        true => Target { path, referer, ..target.clone() },
        false => Target { method: Method::GET, path, body: Chunks::default(), referer },
    };
    Ok(Some(Redirected { elsewhere, target }))
}

/// The reason why a location cannot be resolved.
enum Unusable {
    /// The location is no URL.
    Location(InvalidReference),
    /// The URL has no server that could be called.
    Url(NoServer),
}

/// A resolved location: scheme and authority, if it has them, and path and query.
type Resolved<'a> = (Option<(Option<String>, &'a str)>, String);

/// Resolves a location from a path and query (`url.URL.Parse`).
fn resolve<'a>(location: &'a str, from: &PathAndQuery) -> Result<Resolved<'a>, Unusable> {
    let location = location.split('#').next().unwrap_or_default();
    let (scheme, rest) = match location.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (Some(scheme.to_ascii_lowercase()), rest),
        Some(("", _)) => return Err(Unusable::Location(InvalidReference::NoScheme)),
        Some((first, _)) if !first.contains(['/', '?']) => {
            return Err(Unusable::Location(InvalidReference::Colon));
        }
        _ => (None, location),
    };
    if let Some(scheme) = scheme.as_ref().filter(|scheme| !matches!(&***scheme, "http" | "https")) {
        return Err(Unusable::Url(NoServer::Scheme(scheme.clone())));
    }
    let Some(absolute) = rest.strip_prefix("//") else {
        if scheme.is_some() {
            return Err(Unusable::Url(NoServer::NoHost));
        }
        let (path, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        let query = match from.query() {
            Some(own) if rest.is_empty() => format!("?{own}"),
            _ => query.to_owned(),
        };
        let path = match path {
            "" => from.path().to_owned(),
            path if path.starts_with('/') => without_dots(path),
            path => without_dots(&format!("{}/{path}", from.path().rsplit_once('/').map_or("", |(folder, _)| folder))),
        };
        return Ok((None, path + &query));
    };
    let (authority, rest) = absolute.split_at(absolute.find(['/', '?']).unwrap_or(absolute.len()));
    let (path, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
    Ok((Some((scheme, authority)), without_dots(path) + query))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

/// Returns a path without the parts `.` and `..` (`url.resolvePath`).
fn without_dots(path: &str) -> String {
    let mut parts = Vec::new();
    let mut all = path.strip_prefix('/').unwrap_or(path).split('/').peekable();
    while let Some(part) = all.next() {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
        if all.peek().is_none() && matches!(part, "." | "..") {
            parts.push("");
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http::Response;

    /// Returns method and URL of the next request, and the referer if there is one.
    fn followed_from(url: &str, status: u16, location: &str) -> Result<Option<String>, String> {
        let endpoint = Endpoint::server(url).unwrap();
        let body = Chunks::new(["b".into(), Bytes::new(), Bytes::new(), Bytes::new()]);
        let target = Target::post(endpoint.path(), Some(10), body).unwrap();
        let location = HeaderValue::from_str(location).unwrap();
        let (head, ()) = Response::builder().status(status).header(LOCATION, &location).body(()).unwrap().into_parts();
        let next = follow(&endpoint, &target, &head, 1).map_err(|why| why.to_string())?;
        Ok(next.map(|Redirected { elsewhere, target: Target { method, path, referer, .. } }| {
            let from = format!("{}{}", endpoint.base(), target.path);
            let leaves_tls = url.starts_with("https:") && elsewhere.as_ref().is_some_and(Endpoint::is_plain);
            assert_eq!(referer, (!leaves_tls).then(|| HeaderValue::try_from(from).unwrap()));
            format!("{method} {}{path}", elsewhere.map(|server| server.base()).unwrap_or_default())
        }))
    }

    fn followed(status: u16, location: &str) -> Result<Option<String>, String> {
        followed_from("https://a.example/x/y", status, location)
    }

    #[test]
    fn a_location_at_the_same_server_is_asked_there() {
        for (status, location, want) in [
            (302, "/z", Some("GET /z")),
            (301, "https://a.example/z?q", Some("GET /z?q")),
            (303, "HTTPS://A.example:443", Some("GET /")),
            (307, "z", Some("POST /x/z")),
            (307, "../z/./..", Some("POST /")),
            (307, "../../../z/.", Some("POST /z/")),
            (308, "//a.example/z#f", Some("POST /z")),
            (307, "?q", Some("POST /x/y?q")),
            (307, "?", Some("POST /x/y?")),
            (307, "#f", Some("POST /x/y?timeout=10s")),
            (307, "/z?u=https://b.example/", Some("POST /z?u=https://b.example/")),
            (302, "", None),
            (300, "/z", None),
            (304, "/z", None),
            (200, "/z", None),
        ] {
            assert_eq!(followed(status, location).unwrap().as_deref(), want, "{status} {location}");
        }
    }

    #[test]
    fn another_server_is_asked_as_well() {
        for (location, want) in [
            ("https://b.example/z", "POST https://b.example/z"),
            ("https://a.example:444", "POST https://a.example:444/"),
            ("http://a.example/../z?q", "POST http://a.example/z?q"),
            ("//b.example", "POST https://b.example/"),
        ] {
            assert_eq!(followed(307, location).unwrap().as_deref(), Some(want), "{location}");
        }
        let from_plain = |location| followed_from("http://a.example/x/y", 302, location).unwrap().unwrap();
        assert_eq!(from_plain("//b.example/"), "GET http://b.example/");
        assert_eq!(from_plain("//a.example:80/"), "GET /");
        assert_eq!(from_plain("https://a.example/"), "GET https://a.example/");
    }

    #[test]
    fn an_invalid_location_is_an_error_in_gos_words() {
        let from = "Post \"https://a.example/x/y?timeout=10s\": failed to parse Location header";
        for (location, want) in [
            ("x:y", "Post \"x:y\": unsupported protocol scheme \"x\"".to_owned()),
            ("file:///etc/passwd", "Post \"file:///etc/passwd\": unsupported protocol scheme \"file\"".to_owned()),
            ("https:z", "Post \"https:z\": http: no Host in request URL".to_owned()),
            (":z", format!("{from} \":z\": parse \":z\": missing protocol scheme")),
            ("1:z", format!("{from} \"1:z\": parse \"1:z\": first path segment in URL cannot contain colon")),
            ("https:///z", format!("{from} \"https:///z\": no host in request URL")),
            ("https://u:p@b.example/", format!("{from} \"https://u:p@b.example/\": no host in request URL")),
            ("https://b:x/", format!("{from} \"https://b:x/\": invalid port")),
        ] {
            assert_eq!(followed(307, location).unwrap_err(), want, "{location}");
        }
    }
}
