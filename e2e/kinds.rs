//! Compares every built-in kind in kube-apiserver and in the proxy: the manifests are created, updated, patched in every way and deleted on
//! a kube-apiserver that calls webhooks for all objects, and through a proxy that does so in front of a kube-apiserver that does not. The
//! responses and the webhooks' requests must be equal. The embedded API server is compared with the same kube-apiserver.
//!
//! The manifests are in `kinds/*.yaml`; `known-differences.txt` and `known-differences-embedded.txt` list the known differences, each with
//! its reason.

mod known;
mod manifests;

use crate::harness::seen::{Difference, Masks, Seen};
use crate::harness::{
    Api, ControlPlane, Kept, Proxy, Request, User, Webhook, delete, eventually, folder, get, only, patch, pki, post,
    proxy_only, put,
};
use known::Known;
use manifests::{Entry, Manifest, merged};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::OnceLock;

const PLUGINS: [&str; 2] = ["MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"];
/// The user of all requests. The test ignores webhook calls for kube-apiserver's own writes.
const USER: &str = "admin";

#[test]
fn every_kind_is_shown_and_answered_as_by_kube_apiserver() {
    let webhook = Webhook::start();
    let found = {
        let upstream = ControlPlane::start("kinds-upstream", &only(&[]));
        let proxy = Proxy::before(&upstream, &proxy_only(&PLUGINS).each_ref().map(String::as_str));
        Session::begin(&proxy, &webhook).run(&manifests::all())
    };
    must_differ_as_known(&found, include_str!("known-differences.txt"));
}

#[test]
fn every_kind_is_stored_by_the_embedded_server_as_by_kube_apiserver() {
    let webhook = Webhook::start();
    let service_accounts = &pki().service_accounts;
    let flags = [
        format!("--service-account-key-file={}", service_accounts.certificate.display()),
        format!("--service-account-signing-key-file={}", service_accounts.key.display()),
        // kube-apiserver has the issuer and the range from the harness.
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
    ];
    let plugins = proxy_only(&PLUGINS);
    let embedded = Proxy::embedded(&plugins.iter().chain(&flags).map(String::as_str).collect::<Vec<_>>());
    let found = Session::begin(&embedded, &webhook).without_controllers().run(&manifests::all());
    must_differ_as_known(&found, include_str!("known-differences-embedded.txt"));
}

/// The answers of kube-apiserver.
fn reference() -> &'static [Seen] {
    static REFERENCE: OnceLock<Vec<Seen>> = OnceLock::new();
    REFERENCE.get_or_init(|| {
        let webhook = Webhook::start();
        let reference = ControlPlane::start("kinds-reference", &only(&PLUGINS));
        Session::begin(&reference, &webhook).run(&manifests::all())
    })
}

/// Fails the test if the answers differ from those of kube-apiserver in other places than the list has.
fn must_differ_as_known(found: &[Seen], list: &str) {
    let expected = reference();
    assert_eq!(expected.len(), found.len());
    let differences: Vec<Difference> =
        expected.iter().zip(found).flat_map(|(expected, found)| expected.differences(found)).collect();
    let (new, gone) = Known::read(list).compare(&differences);
    let report = report(&new, &gone);
    assert!(new.is_empty() && gone.is_empty(), "{report}");
}

/// The differences in few lines; writes each one to a file.
fn report(new: &[&Difference], gone: &[String]) -> String {
    let file = folder("kinds").join("differences.txt");
    let all: String = new.iter().map(|difference| format!("{difference}\n")).collect();
    std::fs::write(&file, all).unwrap();
    let mut groups: BTreeMap<(&str, String), Vec<&Difference>> = BTreeMap::new();
    for difference in new {
        groups
            .entry((&difference.step, difference.place.replace(|c: char| c.is_ascii_digit(), "")))
            .or_default()
            .push(difference);
    }
    let mut text = format!("{} differences, all of them in {}\n", new.len(), file.display());
    for ((step, place), differences) in groups {
        let first = differences[0];
        let _ = writeln!(text, "{} times {step} {place}: first {}", differences.len(), first.in_short());
    }
    for line in gone {
        let _ = writeln!(text, "known, but does not occur: {line}");
    }
    text
}

/// The requests to one side.
struct Session<'a> {
    api: Kept,
    webhook: &'a Webhook,
    seen: Vec<Seen>,
    /// Whether controllers of the API server write to objects.
    has_controllers: bool,
}

impl<'a> Session<'a> {
    /// Registers the webhook and waits until the side calls it.
    fn begin(api: &Api, webhook: &'a Webhook) -> Self {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kinds"}});
        let registrations = "/apis/admissionregistration.k8s.io/v1";
        for (path, object) in [
            ("/api/v1/namespaces".to_owned(), namespace),
            (
                format!("{registrations}/mutatingwebhookconfigurations"),
                webhook.about_everything("Mutating", "/mutating"),
            ),
            (
                format!("{registrations}/validatingwebhookconfigurations"),
                webhook.about_everything("Validating", "/validating"),
            ),
        ] {
            let answer = api.send(&User::admin(), post(&path, &object));
            assert_eq!(answer.status, 201, "{}", answer.text());
        }
        let probe = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe"}});
        eventually("both webhooks to be asked", || {
            api.send(&User::admin(), post("/api/v1/namespaces/kinds/configmaps?dryRun=All", &probe));
            let reviews = webhook.take();
            let asked =
                |path: &str| reviews.iter().any(|review| review.path.starts_with(path) && is_ours(&review.body));
            (asked("/mutating") && asked("/validating")).then_some(())
        });
        Self { api: api.kept(), webhook, seen: Vec::new(), has_controllers: true }
    }

    /// Does not wait for controllers: the embedded API server has them in the transaction of a write, or not at all.
    fn without_controllers(self) -> Self {
        Self { has_controllers: false, ..self }
    }

    fn run(mut self, entries: &[Entry]) -> Vec<Seen> {
        for entry in entries {
            self.minimal(entry);
            self.rich(entry);
        }
        self.seen
    }

    /// Creates, updates with the object that was read, deletes.
    fn minimal(&mut self, entry: &Entry) {
        let Some(manifest) = self.created(entry, &entry.minimal) else { return };
        let mut stored = self.settled(&manifest);
        if entry.is_kept {
            return;
        }
        stored["metadata"]["labels"]["step"] = json!("replace");
        self.step(&manifest, "replace", put(&manifest.url(), &stored));
        let mut stored = self.settled(&manifest);
        stored["metadata"]["labels"]["step"] = json!("dry-run");
        self.step(&manifest, "dry-run", put(&format!("{}?dryRun=All", manifest.url()), &stored));
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
        let delete = Request::new("DELETE", &manifest.url()).body("application/json", options.to_string());
        self.step(&manifest, "delete-in-background", delete);
    }

    /// Creates, updates with the manifest, applies every patch, changes status and scale, deletes.
    fn rich(&mut self, entry: &Entry) {
        let Some(manifest) = self.created(entry, &entry.rich) else { return };
        self.settled(&manifest);
        if entry.is_kept {
            return;
        }
        let url = manifest.url();
        let change = |step: &str| merged(&entry.change, &json!({"metadata": {"annotations": {"step": step}}}));
        self.step(&manifest, "put", put(&url, &merged(&manifest.object, &change("put"))));
        let annotate = json!([{"op": "add", "path": "/metadata/annotations", "value": {"step": "json"}}]);
        self.step(&manifest, "json", patch(&url, "json", &annotate));
        self.step(&manifest, "merge", patch(&url, "merge", &change("merge")));
        self.step(&manifest, "strategic", patch(&url, "strategic", &change("strategic")));
        // An apply configuration does not contain the fields to remove.
        let configuration = merged(&merged(&json!({}), &change("apply")), &manifest.identity());
        let apply = format!("{url}?fieldManager=applier&force=true");
        self.step(&manifest, "apply", patch(&apply, "apply", &configuration));
        if let Some(status) = &entry.status {
            let url = format!("{url}/status");
            self.step(&manifest, "status", patch(&url, "merge", &json!({"status": status})));
        }
        if entry.has_scale {
            let url = format!("{url}/scale");
            self.step(&manifest, "scale", patch(&url, "merge", &json!({"spec": {"replicas": 5}})));
            self.step(
                &manifest,
                "scale-json",
                patch(&url, "json", &json!([{"op": "replace", "path": "/spec/replicas", "value": 6}])),
            );
        }
        for asked in &entry.asked {
            let url = format!("{url}/{}", asked.subresource);
            let request = match &*asked.how {
                "post" => post(&url, &asked.body),
                "put" => put(&url, &asked.body),
                kind => patch(&url, kind, &asked.body),
            };
            self.step(&manifest, &format!("{}-{}", asked.subresource, asked.how), request);
        }
        if let Some(last) = &entry.settled_again {
            self.settled_as(&manifest, Some(last));
        }
        self.step(&manifest, "get", get(&url));
        self.step(&manifest, "delete", delete(&url));
    }

    /// Creates the manifest's object; returns the manifest, unless the kind is not stored.
    fn created<'e>(&mut self, entry: &'e Entry, object: &Value) -> Option<Manifest<'e>> {
        let manifest = entry.manifest(object);
        let answer = self.step(&manifest, "create", post(&entry.collection, &manifest.object));
        assert!(answer.code < 300, "{} {}: {}", entry.kind, manifest.name, answer.body);
        (!entry.is_virtual).then_some(manifest)
    }

    /// The object as stored, once kube-apiserver's own controllers have written to it.
    fn settled(&self, manifest: &Manifest<'_>) -> Value {
        self.settled_as(manifest, manifest.entry.settled.as_ref())
    }

    /// The object as stored, once kube-apiserver's own controllers have written this value.
    fn settled_as(&self, manifest: &Manifest<'_>, settled: Option<&[String; 2]>) -> Value {
        eventually("what kube-apiserver itself sets", || {
            let object = self.api.send(&User::admin(), get(&manifest.url())).json();
            settled
                .filter(|_| self.has_controllers)
                .is_none_or(|[pointer, value]| object.pointer(pointer).is_some_and(|found| found == value))
                .then_some(object)
        })
    }

    fn step(&mut self, manifest: &Manifest<'_>, step: &str, request: Request) -> &Seen {
        self.webhook.take();
        let answer = self.api.send(&User::admin(), request.header("user-agent", "kinds/1.0"));
        let reviews = self.webhook.take().into_iter().filter(|review| is_ours(&review.body));
        let masks = Masks::new(&manifest.entry.masked);
        self.seen.push(Seen::new(&manifest.entry.kind, &manifest.name, step, &answer, reviews, &masks));
        self.seen.last().unwrap()
    }
}

fn is_ours(review: &Value) -> bool {
    review["request"]["userInfo"]["username"] == USER
}
