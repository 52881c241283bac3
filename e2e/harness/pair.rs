//! A kube-apiserver with admission plugins, and the proxy in front of one without, shared by several tests.

use super::api::Api;
use super::client::{Request, get};
use super::control_plane::{ControlPlane, only, upstream};
use super::differential::{Case, must_be_equal, run, run_asked};
use super::eventually;
use super::proxy::{Proxy, proxy_only};
use super::reviewed::{Reviewed, Side};
use super::user::User;
use super::webhook::Webhook;
use std::iter;

/// A kube-apiserver and a proxy with the same plugins, for several tests that do not disturb one another.
pub struct Pair {
    reference: ControlPlane,
    /// The proxy. Its upstream is the shared one, unless the pair has its own.
    proxy: Side,
    _upstream: Option<ControlPlane>,
}

impl Pair {
    /// Starts both with these plugins and no others, and with these flags, which both support. The requests in `before` create objects
    /// without admission.
    pub fn start(plugins: &[&str], flags: &[String], before: &[Request]) -> Self {
        Self::with(plugins, flags, before, None)
    }

    /// As [`Self::start`], with an upstream of its own, and with flags that all API servers get but not the proxy.
    pub fn alone(plugins: &[&str], flags: &[String], before: &[Request], of_servers: &[String]) -> Self {
        let gates = flags.iter().filter(|flag| flag.starts_with("--feature-gates=")).cloned();
        let servers: Vec<String> = gates.chain(of_servers.iter().cloned()).collect();
        let own = ControlPlane::start("own-upstream", &[only(&[]), servers].concat());
        Self::with(plugins, &[flags, of_servers].concat(), before, Some((own, of_servers)))
    }

    fn with(plugins: &[&str], flags: &[String], before: &[Request], own: Option<(ControlPlane, &[String])>) -> Self {
        let bare = if before.is_empty() {
            None
        } else {
            Some(ControlPlane::start("reference", &[&only(&[]), flags].concat()))
        };
        if let Some(bare) = &bare {
            bare.set_up(before);
        }
        let admitting = [&only(plugins), flags].concat();
        let reference = match bare {
            Some(bare) => bare.restarted(&admitting),
            None => ControlPlane::start("reference", &admitting),
        };
        if Side::is_front_end() {
            let gates = flags.iter().filter(|flag| flag.starts_with("--feature-gates="));
            let of_servers = own.as_ref().map_or(&[][..], |(_, of_servers)| *of_servers);
            let of_server: Vec<String> = gates.chain(of_servers).cloned().collect();
            let of_front_end: Vec<String> = flags.iter().filter(|flag| !of_servers.contains(flag)).cloned().collect();
            let reviewed = Reviewed::start(plugins, &of_front_end, &of_server, before);
            return Self { reference, proxy: Side::Reviewed(Box::new(reviewed)), _upstream: None };
        }
        let (upstream, of_servers): (&Api, _) = match &own {
            Some((own, of_servers)) => (own, *of_servers),
            None => (upstream(), &[][..]),
        };
        upstream.set_up(before);
        let named = proxy_only(plugins);
        let of_both = flags.iter().filter(|flag| !of_servers.contains(flag));
        let exact = iter::once("--field-ownership=exact-all");
        let of_proxy: Vec<&str> = exact.chain(named.iter().chain(of_both).map(String::as_str)).collect();
        let proxy = Side::Proxy(Proxy::before(upstream, &of_proxy));
        Self { reference, proxy, _upstream: own.map(|(own, _)| own) }
    }

    /// The kube-apiserver with the plugins, and the proxy.
    pub fn sides(&self) -> [&Api; 2] {
        [&self.reference, &self.proxy]
    }

    /// The metrics of both.
    pub fn metrics(&self) -> [String; 2] {
        let expected = self.reference.send(&User::admin(), get("/metrics")).text();
        [expected, self.proxy.process().health("/metrics").unwrap().1]
    }

    /// Sends a request to both until the response contains this text, since caches may lag behind.
    pub fn until(&self, user: &User, request: &Request, text: &str) {
        for api in self.sides() {
            let side = if std::ptr::eq(api, self.sides()[0]) { "kube-apiserver" } else { "the proxy" };
            let what = format!("{text} from {side}, asked {} {}", request.method, request.path);
            eventually(&what, || api.send(user, request.clone()).text().contains(text).then_some(()));
        }
    }

    /// Sends requests to both as admin and checks that they succeed.
    pub fn set_up(&self, requests: &[Request]) {
        for api in self.sides() {
            api.set_up(requests);
        }
    }

    /// Sends requests to both, and checks that the responses are equal.
    ///
    /// # Panics
    /// If the responses differ; the message lists every difference.
    pub fn compare(&self, steps: Vec<(User, Request)>) {
        let case = Case { plugins: &[], setup: Vec::new(), webhook: None, steps };
        must_be_equal(&run(&case, &self.reference, |_| ()), &run(&case, &self.proxy, |_| ()), self.proxy.process());
    }

    /// As [`Self::compare`], and checks that the webhook gets equal requests. `ready` waits until a side knows the webhook.
    ///
    /// # Panics
    /// If the two sides differ.
    pub fn compare_asked(&self, webhook: &Webhook, ready: impl Fn(&Api), steps: &[(User, Request)]) {
        let [expected, got] = self.sides().map(|api| {
            ready(api);
            webhook.take();
            run_asked(steps, api, webhook)
        });
        must_be_equal(&expected, &got, self.proxy.process());
    }
}
