//! The headers by which the upstream API server trusts a front proxy, as it publishes them.
//!
//! A header that the API server reads and the proxy does not know would let a client claim any identity. kube-apiserver publishes all
//! names in a ConfigMap (`clusterauthenticationtrust.Controller`), which is read at the start and then again and again.

use super::{SharedTransport, client};
use crate::body::{chain, empty};
use crate::request::body;
use crate::server::health::Unhealthy;
use arc_swap::ArcSwapOption;
use http::header::{self, HeaderName};
use http::{HeaderValue, Request, StatusCode, Uri};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::task::AbortOnDropHandle;

/// The ConfigMap `kube-system/extension-apiserver-authentication`.
const PATH: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
/// Bytes of an answer that are read: more than an object in etcd may have.
const BODY_BYTES: usize = 4 << 20;

/// The names of the headers in which a front proxy sends the user to the API server, and all other names that the API server reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeaders {
    /// The header of the user name.
    pub(crate) username: HeaderName,
    /// The header of the UID.
    pub(crate) uid: HeaderName,
    /// The header of a group; a request may have several.
    pub(crate) group: HeaderName,
    /// The prefix of the headers of extra fields, in lower case.
    pub(crate) extra_prefix: String,
    /// Names that the API server reads, in lower case.
    pub(crate) names: Vec<String>,
    /// Prefixes of names that the API server reads, in lower case.
    pub(crate) prefixes: Vec<String>,
}

impl Default for RequestHeaders {
    fn default() -> Self {
        Self {
            username: HeaderName::from_static("x-remote-user"),
            uid: HeaderName::from_static("x-remote-uid"),
            group: HeaderName::from_static("x-remote-group"),
            extra_prefix: "x-remote-extra-".to_owned(),
            names: Vec::new(),
            prefixes: Vec::new(),
        }
    }
}

#[derive(Deserialize)]
struct ConfigMap {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

impl RequestHeaders {
    /// Reads the data of the ConfigMap. The first name of each kind is the one to send.
    ///
    /// # Errors
    /// If the ConfigMap has no header for users or for groups, or an invalid header name.
    fn from_config_map(data: &BTreeMap<String, String>) -> Result<Self, Unhealthy> {
        let list = |key: &str| -> Result<Vec<HeaderName>, Unhealthy> {
            let Some(text) = data.get(key) else { return Ok(Vec::new()) };
            let names: Vec<String> =
                serde_json::from_str(text).map_err(|error| Unhealthy::of(format_args!("{key}: {error}")))?;
            let parse = |name: &String| {
                HeaderName::try_from(name).map_err(|_| Unhealthy::of(format_args!("{key}: {name:?} is no header")))
            };
            names.iter().map(parse).collect()
        };
        let needed = |key: &str| -> Result<(HeaderName, Vec<HeaderName>), Unhealthy> {
            let names = list(key)?;
            let first = names.first().cloned();
            first.map(|first| (first, names)).ok_or_else(|| {
                Unhealthy::of(format_args!("{key} is missing: the API server is configured without a front proxy"))
            })
        };
        let (username, usernames) = needed("requestheader-username-headers")?;
        let (group, groups) = needed("requestheader-group-headers")?;
        let uids = list("requestheader-uid-headers")?;
        let prefixes = list("requestheader-extra-headers-prefix")?;
        let texts = |names: &[HeaderName]| names.iter().map(|name| name.as_str().to_owned()).collect::<Vec<_>>();
        // A header that the API server does not read may have the usual name.
        let usual = Self::default();
        Ok(Self {
            username,
            uid: uids.first().cloned().unwrap_or(usual.uid),
            group,
            extra_prefix: prefixes.first().map_or(usual.extra_prefix, |prefix| prefix.as_str().to_owned()),
            names: [texts(&usernames), texts(&groups), texts(&uids)].concat(),
            prefixes: texts(&prefixes),
        })
    }
}

/// The names that are known now; `None` until the ConfigMap has been read.
pub(crate) type KnownHeaders = Arc<ArcSwapOption<RequestHeaders>>;

/// A task that follows the ConfigMap. Dropping the value ends the reads; the known names stay.
#[derive(Debug)]
pub(crate) struct FrontProxy {
    last: watch::Receiver<Result<(), Unhealthy>>,
    _task: AbortOnDropHandle<()>,
}

impl FrontProxy {
    /// Reads at once, and then again every `every`; an answer that takes longer than `patience` counts as missing. Keeps the names in
    /// `known`. Must be called inside a tokio runtime.
    pub(crate) fn follow(transport: SharedTransport, known: KnownHeaders, every: Duration, patience: Duration) -> Self {
        let (said, last) = watch::channel(Err(Unhealthy::of("the API server's front-proxy headers were not read yet")));
        let reading = async move {
            let mut ticks = interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let read = timeout(patience, read(&transport))
                    .await
                    .unwrap_or_else(|_| Err(Unhealthy::of("no answer in time")));
                let read = read.map_err(|reason| {
                    Unhealthy::of(format_args!("ConfigMap kube-system/extension-apiserver-authentication: {reason}"))
                });
                if let Err(reason) = &read
                    && said.borrow().is_ok()
                {
                    tracing::warn!(%reason, "the API server's front-proxy headers cannot be read");
                }
                let outcome = read.map(|headers| {
                    let headers = Some(Arc::new(headers));
                    if *known.load() != headers {
                        tracing::info!(?headers, "the API server's front-proxy headers");
                        known.store(headers);
                    }
                });
                let _before = said.send_replace(outcome);
            }
        };
        Self { last, _task: AbortOnDropHandle::new(tokio::spawn(reading)) }
    }

    /// Checks that the names could be read the last time.
    ///
    /// # Errors
    /// If the last read failed, with the reason.
    pub(crate) fn check(&self) -> Result<(), Unhealthy> {
        self.last.borrow().clone()
    }
}

async fn read(transport: &SharedTransport) -> Result<RequestHeaders, Unhealthy> {
    let mut request = Request::new(empty());
    *request.uri_mut() = Uri::from_static(PATH);
    request.headers_mut().insert(header::USER_AGENT, HeaderValue::from_static(client::USER_AGENT));
    request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    let response = transport.send(request).await.map_err(|error| Unhealthy::of(chain(&error)))?;
    let status = response.status();
    let body = body::read(response.into_body(), BODY_BYTES).await.map_err(Unhealthy::of)?;
    if status != StatusCode::OK {
        return Err(Unhealthy::of(format_args!("the API server answers with {}", status.as_u16())));
    }
    let map: ConfigMap = serde_json::from_slice(&body).map_err(Unhealthy::of)?;
    RequestHeaders::from_config_map(&map.data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::full;
    use crate::upstream::from_fn;
    use http::Response;
    use serde_json::json;
    use std::sync::Mutex;

    fn headers(data: &serde_json::Value) -> Result<RequestHeaders, Unhealthy> {
        RequestHeaders::from_config_map(&serde_json::from_value(data.clone()).unwrap())
    }

    #[test]
    fn the_first_name_of_each_kind_is_sent_and_all_are_known() {
        let found = headers(&json!({
            "requestheader-username-headers": r#"["X-Gateway-User","X-Remote-User"]"#,
            "requestheader-group-headers": r#"["X-Gateway-Group"]"#,
            "requestheader-extra-headers-prefix": r#"["X-Gateway-Extra-","X-More-"]"#,
            "requestheader-allowed-names": "[]",
        }));
        let found = found.unwrap();
        assert_eq!((found.username.as_str(), found.group.as_str()), ("x-gateway-user", "x-gateway-group"));
        // The API server reads no header of the UID.
        assert_eq!((found.uid.as_str(), found.extra_prefix.as_str()), ("x-remote-uid", "x-gateway-extra-"));
        assert_eq!(found.names, ["x-gateway-user", "x-remote-user", "x-gateway-group"]);
        assert_eq!(found.prefixes, ["x-gateway-extra-", "x-more-"]);
    }

    #[test]
    fn names_that_cannot_be_used_are_an_error() {
        for (users, groups) in [
            ("[]", r#"["g"]"#),
            (r#"["u"]"#, "[]"),
            (r#"["u"]"#, r#"[""]"#),
            ("u", r#"["g"]"#),
            (r#"["a b"]"#, r#"["g"]"#),
        ] {
            let data = json!({"requestheader-username-headers": users, "requestheader-group-headers": groups});
            assert!(headers(&data).is_err(), "{data}");
        }
        assert!(headers(&json!({})).unwrap_err().to_string().contains("is configured without a front proxy"));
    }

    #[tokio::test(start_paused = true)]
    async fn the_config_map_is_followed_and_the_last_names_stay() {
        let of = |group: &str| {
            let names = |name: &str| json!([name]).to_string();
            json!({"data": {"requestheader-username-headers": names("X-U"), "requestheader-group-headers": names(group)}})
        };
        let answer = Arc::new(Mutex::new((403, json!({}))));
        let transport = from_fn({
            let answer = answer.clone();
            move |request| {
                assert_eq!(request.uri(), PATH);
                let (code, body) = answer.lock().unwrap().clone();
                async move { Ok(Response::builder().status(code).body(full(body.to_string())).unwrap()) }
            }
        });
        let known = KnownHeaders::default();
        let (every, patience) = (Duration::from_secs(10), Duration::from_secs(1));
        let mut front_proxy = FrontProxy::follow(transport, known.clone(), every, patience);
        let group = || known.load().as_ref().map(|headers| headers.group.as_str().to_owned());
        front_proxy.last.changed().await.unwrap();
        assert!(front_proxy.check().unwrap_err().to_string().ends_with("the API server answers with 403"));
        assert_eq!(group(), None);
        for (code, body, is_ok, wanted) in [
            (200, of("X-A"), true, "x-a"),
            (200, of("X-B"), true, "x-b"),
            (500, json!({}), false, "x-b"),
            (200, of("X-C"), true, "x-c"),
        ] {
            *answer.lock().unwrap() = (code, body);
            front_proxy.last.changed().await.unwrap();
            assert_eq!((front_proxy.check().is_ok(), group().as_deref()), (is_ok, Some(wanted)));
        }
    }
}
