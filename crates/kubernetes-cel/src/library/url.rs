//! URLs: `library.URLs` of Kubernetes.

mod parse;

use super::{opaque, overload, same, text_of, traversal_of_first};
use crate::function::Function;
use crate::types::Type;
use crate::value::{Error, Opaque, Value};
use parse::{InvalidUrl, Url};
use std::sync::Arc;

/// Functions that make and read URLs.
pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "url",
        overloads: &[overload("string_to_url", "url(string): kubernetes.URL")],
        call: |arguments| match arguments {
            // For the first check, a hash sign is a part of the path.
            [Value::String(text)] => match check(text).and_then(|()| Url::parse(text)) {
                Ok(url) => Ok(Value::Opaque(Arc::new(url))),
                Err(error) => Err(Error::new(format!("URL parse error during conversion from string: {error}"))),
            },
            _ => Err(Error::NoSuchOverload),
        },
        cost: Some(traversal_of_first),
    },
    Function {
        name: "isURL",
        overloads: &[overload("is_url_string", "isURL(string): bool")],
        call: |arguments| match arguments {
            [Value::String(text)] => Ok(Value::Bool(check(text).is_ok())),
            _ => Err(Error::NoSuchOverload),
        },
        cost: None,
    },
    Function {
        name: "getScheme",
        overloads: &[overload("url_get_scheme", "kubernetes.URL.getScheme(): string")],
        call: |arguments| Ok(Value::string(url(arguments)?.scheme.as_str())),
        cost: None,
    },
    Function {
        name: "getHost",
        overloads: &[overload("url_get_host", "kubernetes.URL.getHost(): string")],
        call: |arguments| Ok(text_of(&url(arguments)?.host)),
        cost: None,
    },
    Function {
        name: "getHostname",
        overloads: &[overload("url_get_hostname", "kubernetes.URL.getHostname(): string")],
        call: |arguments| Ok(text_of(url(arguments)?.host_and_port().0)),
        cost: None,
    },
    Function {
        name: "getPort",
        overloads: &[overload("url_get_port", "kubernetes.URL.getPort(): string")],
        call: |arguments| Ok(text_of(url(arguments)?.host_and_port().1)),
        cost: None,
    },
    Function {
        name: "getEscapedPath",
        overloads: &[overload("url_get_escaped_path", "kubernetes.URL.getEscapedPath(): string")],
        call: |arguments| Ok(text_of(&url(arguments)?.escaped_path())),
        cost: None,
    },
    Function {
        name: "getQuery",
        overloads: &[overload("url_get_query", "kubernetes.URL.getQuery(): map(string, list(string))")],
        call: |arguments| {
            let query = url(arguments)?.query().into_iter();
            let values = |values: Vec<Vec<u8>>| Value::list(values.iter().map(|value| text_of(value)).collect());
            Ok(Value::map(query.map(|(key, each)| (text_of(&key), values(each)))))
        },
        cost: None,
    },
];

/// Returns the host of a URL, with its port (`url.Parse`); empty without one. `None` if the text is no URL.
#[must_use]
pub fn host(text: &str) -> Option<Vec<u8>> {
    Url::parse(text).ok().map(|url| url.host)
}

/// Checks that the text is the URL of a request (`url.ParseRequestURI`).
///
/// # Errors
/// If the text is no such URL.
pub(super) fn check(text: &str) -> std::result::Result<(), InvalidUrl> {
    Url::parse_request(text).map(drop)
}

fn url<'v>(arguments: &'v [Value<'_>]) -> std::result::Result<&'v Url, Error> {
    match arguments {
        [value] => opaque(value).ok_or(Error::NoSuchOverload),
        _ => Err(Error::NoSuchOverload),
    }
}

impl Opaque for Url {
    fn r#type(&self) -> Type {
        Type::opaque("kubernetes.URL")
    }

    fn equals(&self, other: &dyn Opaque) -> std::result::Result<bool, Error> {
        Ok(self.to_bytes() == same::<Self>(other)?.to_bytes())
    }
}
