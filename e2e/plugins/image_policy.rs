//! ImagePolicyWebhook, compared with kube-apiserver's own: responses, and the backend's requests.

use crate::harness::differential::as_of_plugin;
use crate::harness::{
    Api, ControlPlane, Pair, Proxy, Request, Reviewed, Side, User, Webhook, eventually, folder, only, patch, pki, post,
    proxy_only, put, unique, upstream,
};
use serde_json::{Value, json};
use std::fs;

const PLUGINS: [&str; 1] = ["ImagePolicyWebhook"];

/// The response to a request, and the backend's requests.
#[derive(Debug, PartialEq)]
struct Seen {
    code: u16,
    status: Value,
    annotations: Value,
    reviews: Vec<(String, Value, [Option<String>; 5])>,
}

fn pods(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}

fn pod(name: &str, image: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [{"name": "a", "image": image}]}})
}

/// The flag for this configuration, in which `KUBECONFIG` becomes a kubeconfig of a backend at this URL.
fn configuration(url: &str, configuration: Value) -> String {
    let folder = folder("image-policy");
    let (kubeconfig, file) = (folder.join("backend.yaml"), folder.join("admission.yaml"));
    let backend = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "b", "cluster": {"server": url, "certificate-authority": pki().ca()}}],
        "users": [{"name": "u", "user": {"token": "of-the-test"}}],
        "contexts": [{"name": "c", "context": {"cluster": "b", "user": "u"}}]});
    fs::write(&kubeconfig, backend.to_string()).unwrap();
    fs::write(&file, configuration.to_string().replace("KUBECONFIG", &kubeconfig.display().to_string())).unwrap();
    format!("--admission-control-config-file={}", file.display())
}

fn seen(api: &Api, webhook: &Webhook, requests: &[Request]) -> Vec<Seen> {
    webhook.take();
    let answers = requests.iter().map(|request| {
        let answer = api.send(&User::developer(), request.clone());
        let body = as_of_plugin(answer.json());
        let generated = body["metadata"]["generateName"].is_string();
        let reviews = webhook.take().into_iter().map(|review| {
            let names = ["authorization", "user-agent", "accept", "content-type", "accept-encoding"];
            let header = |name: &str| review.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
            (review.path, review.body, names.map(header))
        });
        let mut status = if body["kind"] == "Status" { body.clone() } else { Value::Null };
        // A generated name differs from run to run.
        if request.body.windows(12).any(|window| window == b"generateName") || generated {
            let name = status["details"]["name"].take().as_str().unwrap_or_default().to_owned();
            let message = status["message"].as_str().unwrap_or_default();
            status["message"] =
                json!(if name.is_empty() { message.to_owned() } else { message.replace(&name, "<generated>") });
        }
        let annotations = body["metadata"]["annotations"].clone();
        Seen { code: answer.status, status, annotations, reviews: reviews.collect() }
    });
    answers.collect()
}

/// Sends the requests to a kube-apiserver and through the proxy; returns the number of the backend's requests for each.
fn compare(configuration: &str, webhook: &Webhook, namespace: &str, requests: Vec<Request>) -> Vec<usize> {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let requests: Vec<_> = std::iter::once(post("/api/v1/namespaces", &object)).chain(requests).collect();
    let reference = ControlPlane::start("reference", &[only(&PLUGINS), vec![configuration.to_owned()]].concat());
    let expected = seen(&reference, webhook, &requests);
    drop(reference);
    let side = if Side::is_front_end() {
        Side::Reviewed(Box::new(Reviewed::start(&PLUGINS, &[configuration.to_owned()], &[], &[])))
    } else {
        let [on, off] = proxy_only(&PLUGINS);
        Side::Proxy(Proxy::before(upstream(), &[configuration, &on, &off]))
    };
    let got = seen(&side, webhook, &requests);
    let mut differences = Vec::new();
    for ((request, expected), got) in requests.iter().zip(&expected).zip(&got) {
        if got != expected {
            let body = String::from_utf8_lossy(&request.body);
            differences.push(format!("{} {} {body}\n  {expected:?}\n  {got:?}", request.method, request.path));
        }
    }
    assert!(differences.is_empty(), "not as kube-apiserver (first line):\n{}", differences.join("\n"));
    expected.iter().skip(1).map(|seen| seen.reviews.len()).collect()
}

#[test]
fn the_backend_is_asked_and_obeyed_as_by_kube_apiserver() {
    let webhook = Webhook::start();
    let here = unique("images");
    let policy =
        json!({"imagePolicy": {"kubeConfigFile": "KUBECONFIG", "allowTTL": 60, "denyTTL": -1, "retryBackoff": 1}});
    let configuration = configuration(
        &webhook.url("/image"),
        json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
               "plugins": [{"name": "ImagePolicyWebhook", "configuration": policy}]}),
    );
    let create = |pod: Value| post(&pods(&here), &pod);
    let one = format!("{}/one", pods(&here));
    let mut several = pod("several", "good");
    several["spec"]["initContainers"] = json!([{"name": "i", "image": "init"}, {"name": "j", "image": "bad"}]);
    let mut annotated = pod("annotated", "good");
    annotated["metadata"]["annotations"] =
        json!({"x.image-policy.k8s.io/ticket": "<1>", "image-policy.k8s.io/no": "2", "other": "3"});
    let mut generated = pod("", "bad");
    generated["metadata"] = json!({"generateName": "some-"});
    let debug = |image: &str| {
        json!({"metadata": {"annotations": {"x.image-policy.k8s.io/break-glass": "true"}},
               "spec": {"ephemeralContainers": [{"name": image.replace("bad", "b"), "image": image}]}})
    };
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "bad"}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let mut steps = vec![
        (create(pod("one", "good")), 1),
        // The cached response applies to pods of any name.
        (create(pod("two", "good")), 0),
        (create(pod("three", "bad")), 1),
        (create(pod("three", "bad")), 1),
        (create(pod("three", "silent")), 1),
        (create(several), 1),
        (create(annotated), 1),
        (create(generated), 1),
        (patch(&one, "merge", &json!({"metadata": {"labels": {"k": "v"}}})), 0),
        (patch(&one, "strategic", &json!({"spec": {"containers": [{"name": "a", "image": "bad"}]}})), 1),
        (patch(&one, "merge", &json!({"metadata": {"annotations": {"y.image-policy.k8s.io/z": "w"}}})), 1),
        (patch(&format!("{one}/ephemeralcontainers"), "strategic", &debug("bad")), 1),
        (patch(&format!("{one}/ephemeralcontainers"), "strategic", &debug("debugger")), 1),
        (patch(&format!("{one}/status"), "merge", &json!({"status": {"message": "m"}})), 0),
        (patch(&format!("{}/applied?fieldManager=me", pods(&here)), "apply", &pod("applied", "bad")), 1),
        (post(&format!("/apis/apps/v1/namespaces/{here}/deployments"), &deployment), 0),
        (post(&format!("{}?dryRun=All", pods(&here)), &pod("dry", "bad")), 1),
        (put(&format!("{}/two", pods(&here)), &pod("two", "bad")), 1),
    ];
    // The backend hears nothing of objects that are invalid.
    let mut moved = pod("one", "bad");
    moved["spec"]["nodeName"] = json!("elsewhere");
    steps.extend([
        (create(pod("No_Name", "bad")), 0),
        (
            create(
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "empty"}, "spec": {"containers": []}}),
            ),
            0,
        ),
        (put(&one, &moved), 0),
    ]);
    // The responses to failures of the backend.
    for (image, asked) in [
        ("code-500", 5),
        ("code-504", 5),
        ("code-429", 5),
        ("code-400", 1),
        ("code-401", 1),
        ("code-403", 1),
        ("code-404", 1),
        ("code-409", 1),
        ("code-503", 1),
        ("status-403", 1),
        ("status-500", 1),
        ("raw-hello", 1),
        ("raw-typed", 1),
        ("raw-cased", 1),
        ("raw-status", 1),
        ("raw-annotations", 1),
        ("raw-spec", 1),
        ("raw-pod", 1),
        ("raw-admission", 1),
        ("raw-newer", 1),
        ("raw-failure", 1),
        ("raw-yaml", 1),
        ("raw-html", 1),
        ("raw-list", 1),
        ("raw-empty", 1),
    ] {
        steps.push((create(pod(image, image)), asked));
    }
    let (requests, asked): (Vec<_>, Vec<_>) = steps.into_iter().unzip();
    assert_eq!(compare(&configuration, &webhook, &here, requests), asked);
}

#[test]
fn pods_pass_where_the_backend_is_gone_if_so_configured() {
    let webhook = Webhook::start();
    let here = unique("images-open");
    // A configuration file in the format before AdmissionConfiguration.
    let policy = json!({"imagePolicy": {"kubeConfigFile": "KUBECONFIG", "retryBackoff": -1, "defaultAllow": true}});
    let configuration = configuration(&webhook.url("/image"), policy);
    let create = |image: &str| post(&pods(&here), &pod(image, image));
    let requests =
        ["good", "bad", "code-500", "code-404", "code-403", "raw-html", "raw-typed", "raw-hello"].map(create);
    assert_eq!(compare(&configuration, &webhook, &here, requests.to_vec()), [1, 1, 5, 1, 1, 1, 1, 1]);
}

#[test]
fn a_pod_that_passed_without_an_answer_has_a_mark_for_later_plugins() {
    // The front end does not run ValidatingAdmissionWebhook.
    if Side::is_front_end() {
        return;
    }
    let webhook = Webhook::start();
    let here = unique("images-marked");
    let policy = json!({"imagePolicy": {"kubeConfigFile": "KUBECONFIG", "retryBackoff": -1, "defaultAllow": true}});
    let configuration = configuration(&webhook.url("/image"), policy);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": here, "labels": {"kubernetes.io/metadata.name": here}}});
    let before = [
        post("/api/v1/namespaces", &namespace),
        post(
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            &webhook.configuration("Validating", &here, &here, &["/allow"]),
        ),
    ];
    let pair = Pair::alone(&["ImagePolicyWebhook", "ValidatingAdmissionWebhook"], &[configuration], &before, &[]);
    let create = |image: &str| post(&pods(&here), &pod(image, image));
    let requests = [
        create("good"),
        create("code-500"),
        create("code-404"),
        patch(&format!("{}/good", pods(&here)), "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
        put(&format!("{}/good", pods(&here)), &pod("good", "code-500")),
    ];
    // The annotations that the webhook gets and that are stored, for each request.
    let marks = pair.sides().map(|api| {
        eventually("a question to the webhook", || {
            api.send(&User::admin(), post(&format!("{}?dryRun=All", pods(&here)), &pod("probe", "good")));
            webhook.take().iter().any(|review| review.path.starts_with("/allow")).then_some(())
        });
        requests.clone().map(|request| {
            let stored = api.send(&User::admin(), request).json()["metadata"]["annotations"].clone();
            let reviews = webhook.take().into_iter().filter(|review| review.path.starts_with("/allow"));
            let shown: Vec<_> =
                reviews.map(|review| review.body["request"]["object"]["metadata"]["annotations"].clone()).collect();
            (shown, stored)
        })
    });
    assert_eq!(marks[0], marks[1]);
    let mark = json!({"alpha.image-policy.k8s.io/failed-open": "true"});
    assert_eq!(marks[0][1], (vec![mark], Value::Null));
}
