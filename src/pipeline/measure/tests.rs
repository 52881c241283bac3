use super::*;
use crate::cluster::discovery::{Resource, Subresource};
use crate::kind::{GroupVersionKind, GroupVersionResource};
use crate::request::request_info;

fn metrics(limits: &Limits) -> (Registry, RequestMetrics) {
    let registry = Registry::new();
    let metrics = RequestMetrics::register(&registry, limits).unwrap();
    (registry, metrics)
}

fn discovery() -> Arc<Discovery> {
    let pods = GroupVersionKind::new("", "v1", "Pod");
    let status = Subresource { kind: pods.clone(), verbs: Vec::new() };
    let resource = |kind: GroupVersionKind, subresources: &[&str]| Resource {
        kind,
        namespaced: true,
        verbs: Vec::new(),
        subresources: subresources.iter().map(|name| ((*name).to_owned(), status.clone())).collect(),
    };
    let candidate = GroupVersionKind::new("coordination.k8s.io", "v1beta1", "LeaseCandidate");
    Discovery::fixed([
        (GroupVersionResource::new("", "v1", "pods"), resource(pods, &["status", "exec", "log"])),
        (GroupVersionResource::new("coordination.k8s.io", "v1beta1", "leasecandidates"), resource(candidate, &[])),
    ])
}

/// Measures one request and its answer.
fn measure(metrics: &RequestMetrics, request: &Request<()>, code: u16, is_routed: bool) {
    let info = request_info(request.method(), request.uri());
    let exchange = Exchange { is_routed, ..Exchange::default() };
    let mut measured = metrics.begin(request, &info).answered(&discovery(), &info, code, None, &exchange);
    measured.add(10);
}

fn request(method: &str, target: &str) -> Request<()> {
    Request::builder().method(method).uri(target).body(()).unwrap()
}

/// The lines of the metric with a value other than 0.
fn lines(registry: &Registry, name: &str) -> Vec<String> {
    let text = registry.text().unwrap();
    let lines = text.lines().filter(|line| line.starts_with(name) && !line.ends_with(" 0"));
    lines.map(str::to_owned).collect()
}

#[test]
fn requests_have_the_verbs_and_scopes_of_kube_apiserver() {
    let apply = |mut request: Request<()>, value: &'static str| {
        request.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(value));
        request
    };
    let pods = "/api/v1/namespaces/a/pods";
    for (request, expected) in [
        (request("GET", "/api/v1/pods"), ("LIST", "cluster")),
        (request("GET", pods), ("LIST", "namespace")),
        (request("HEAD", pods), ("LIST", "namespace")),
        (request("GET", &format!("{pods}/p")), ("GET", "resource")),
        (request("GET", &format!("{pods}?watch=1")), ("WATCH", "namespace")),
        (request("GET", &format!("{pods}?watch=FALSE")), ("LIST", "namespace")),
        (request("GET", &format!("{pods}/p?watch=true")), ("WATCH", "resource")),
        (request("GET", "/api/v1/watch/pods"), ("WATCH", "cluster")),
        (request("POST", pods), ("POST", "resource")),
        (request("PUT", &format!("{pods}/p")), ("PUT", "resource")),
        (request("DELETE", pods), ("DELETE", "namespace")),
        (apply(request("PATCH", &format!("{pods}/p")), "application/apply-patch+yaml"), ("APPLY", "resource")),
        (apply(request("PATCH", &format!("{pods}/p")), "application/merge-patch+json"), ("PATCH", "resource")),
        (request("POST", &format!("{pods}/p/exec")), ("CONNECT", "resource")),
        (request("GET", &format!("{pods}/p/log")), ("CONNECT", "resource")),
        (request("OPTIONS", pods), ("other", "namespace")),
        (request("GET", "/healthz"), ("GET", "")),
    ] {
        let info = request_info(request.method(), request.uri());
        let scope = scope(&info);
        let query = request.uri().query().unwrap_or_default();
        let found = (verb(request.method(), scope, &info, request.headers(), query), scope);
        assert_eq!(found, expected, "{} {}", request.method(), request.uri());
    }
}

#[test]
fn parameters_have_few_values() {
    for (query, expected) in [
        ("", ""),
        ("dryRun=All", "All"),
        ("dryRun=All&dryRun=All", "All"),
        ("dryRun=", "invalid"),
        ("dryRun=All&dryRun=x", "invalid"),
        ("dryRun=x&dryRun=All", "invalid"),
        ("notdryRun=x", ""),
        ("dryRun=%41ll", "All"),
    ] {
        assert_eq!(dry_run(query), expected, "{query}");
    }
    for (query, expected) in [
        ("", ""),
        ("fieldValidation=Strict", "Strict"),
        ("fieldValidation=", ""),
        ("fieldValidation=strict", "invalid"),
        ("fieldValidation=Warn&fieldValidation=Warn", "invalid"),
        ("xfieldValidation=Warn", "invalid"),
    ] {
        assert_eq!(field_validation(query), expected, "{query}");
    }
}

#[test]
fn answers_of_routes_are_counted() {
    let (registry, metrics) = metrics(&Limits::default());
    let pods = "/api/v1/namespaces/a/pods";
    measure(&metrics, &request("GET", pods), 200, false);
    measure(&metrics, &request("GET", &format!("{pods}/p")), 404, false);
    measure(&metrics, &request("POST", &format!("{pods}?dryRun=All")), 403, true);
    let labels = |verb: &str, dry_run: &str, scope: &str| {
        format!(
            "component=\"apiserver\",dry_run=\"{dry_run}\",group=\"\",resource=\"pods\",scope=\"{scope}\",subresource=\"\",verb=\"{verb}\",version=\"v1\""
        )
    };
    let with_code = |code: u16, verb: &str, dry_run: &str, scope: &str| {
        format!("apiserver_request_total{{code=\"{code}\",{}}} 1", labels(verb, dry_run, scope))
    };
    assert_eq!(
        lines(&registry, "apiserver_request_total"),
        [
            with_code(200, "LIST", "", "namespace"),
            with_code(403, "POST", "All", "resource"),
            with_code(404, "GET", "", "resource"),
        ]
    );
    assert_eq!(lines(&registry, "apiserver_request_duration_seconds_count").len(), 3);
    assert_eq!(lines(&registry, "apiserver_request_sli_duration_seconds_count").len(), 2, "a dry run has no objective");
    let sums = lines(&registry, "apiserver_response_sizes_sum");
    assert!(sums.len() == 2 && sums.iter().all(|line| line.ends_with(" 10")), "{sums:?}");
    assert!(
        registry.text().unwrap().contains("field_validation_request_duration_seconds_count{field_validation=\"\"} 0")
    );
}

#[test]
fn answers_of_filters_and_unknown_paths_are_not_counted() {
    let (registry, metrics) = metrics(&Limits::default());
    for (target, code) in [
        ("/api/v1/namespaces/a/pods", 401),
        ("/api/v1/namespaces/a/pods", 403),
        ("/api/v1/namespaces/a/gadgets", 404),
        ("/api/v1/namespaces/a/pods/p/gadget", 404),
        ("/api/v9/pods", 404),
        ("/api/v1", 200),
        ("/healthz/etcd", 200),
    ] {
        measure(&metrics, &request("GET", target), code, false);
    }
    measure(&metrics, &request("POST", "/api/v1/namespaces/a/pods"), 403, false);
    assert_eq!(lines(&registry, "apiserver_request"), [""; 0]);
    for target in ["/healthz", "/openapi/v3", "/openapi/v3/api/v1"] {
        measure(&metrics, &request("GET", target), 200, false);
    }
    let found = lines(&registry, "apiserver_request_total");
    let subresources = ["/healthz", "openapi/v3", "openapi/v3/"].map(|path| format!("subresource=\"{path}\""));
    assert!(found.len() == 3 && subresources.iter().all(|of| found.iter().any(|line| line.contains(of))), "{found:?}");
}

#[test]
fn requests_that_find_no_seat_are_dropped() {
    let (registry, metrics) = metrics(&Limits::default());
    let refusal = Status::try_again_later();
    for target in ["/api/v1/namespaces/a/pods", "/api/v1/namespaces/a/made-up"] {
        let request = request("POST", target);
        let info = request_info(request.method(), request.uri());
        let exchange = Exchange::default();
        drop(metrics.begin(&request, &info).answered(&discovery(), &info, 429, Some(&refusal), &exchange));
    }
    let total = lines(&registry, "apiserver_request_total");
    assert!(
        total.len() == 1 && total[0].contains("code=\"429\"") && total[0].contains("resource=\"pods\""),
        "{total:?}"
    );
    let terminated = lines(&registry, "apiserver_request_terminations_total");
    assert_eq!(terminated.len(), 2, "{terminated:?}");
    assert!(!registry.text().unwrap().contains("made-up"));
}

#[test]
fn further_routes_are_one() {
    let (registry, metrics) = metrics(&Limits { measured_routes: 1, ..Limits::default() });
    measure(&metrics, &request("GET", "/api/v1/pods"), 200, false);
    measure(&metrics, &request("GET", "/api/v1/namespaces/a/pods/p"), 200, false);
    measure(&metrics, &request("GET", "/api/v1/namespaces/a/pods/p/status"), 200, false);
    measure(&metrics, &request("GET", "/api/v1/pods"), 200, false);
    let found = lines(&registry, "apiserver_request_total");
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found.iter().any(|line| line.contains("group=\"other\",resource=\"other\"") && line.ends_with(" 2")),
        "{found:?}"
    );
}

#[test]
fn long_running_requests_are_counted_until_their_end() {
    let (registry, metrics) = metrics(&Limits::default());
    let request = request("GET", "/api/v1/pods?watch=true");
    let info = request_info(request.method(), request.uri());
    let exchange = Exchange::default();
    let measured = metrics.begin(&request, &info).answered(&discovery(), &info, 200, None, &exchange);
    assert_eq!(lines(&registry, "apiserver_longrunning_requests").len(), 1);
    assert_eq!(lines(&registry, "apiserver_request_total").len(), 0);
    drop(measured);
    assert_eq!(lines(&registry, "apiserver_longrunning_requests").len(), 0);
    assert_eq!(lines(&registry, "apiserver_request_total").len(), 1);
}

#[test]
fn deprecated_versions_are_named_with_the_release_that_ends_them() {
    let (registry, metrics) = metrics(&Limits::default());
    measure(&metrics, &request("GET", "/apis/coordination.k8s.io/v1beta1/leasecandidates"), 200, false);
    let found = lines(&registry, "apiserver_requested_deprecated_apis");
    assert!(found.len() == 1 && found[0].contains("removed_release=\"1.39\""), "{found:?}");
    assert_eq!(removed_release("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"), "");
}
