//! kubectl's commands, in front of both kinds of API server.

use crate::harness::{Api, Kubectl, Proxy, User, admitting, eventually, unique, upstream};

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: 'nginx:1'}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
";

const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: one}
spec: {containers: [{name: a, image: a, imagePullPolicy: IfNotPresent}]}
";

/// A typical session of a user.
fn a_session(kubectl: &Kubectl) {
    let namespace = unique("afternoon");
    assert_eq!(kubectl.ok(&["create", "namespace", &namespace]), format!("namespace/{namespace} created\n"));
    assert!(kubectl.ok(&["get", "ns"]).contains(&namespace));
    assert!(kubectl.ok(&["get", "ns"]).starts_with("NAME"), "a table");
    let within = |arguments: &[&str]| kubectl.ok(&[&["-n", &namespace], arguments].concat());
    let apply = |manifest: &str, more: &[&str]| {
        kubectl.ok_with_input(&[&["-n", &*namespace, "apply", "-f", "-"], more].concat(), manifest)
    };

    assert_eq!(apply(DEPLOYMENT, &[]), "deployment.apps/web created\nservice/web created\n");
    assert_eq!(apply(DEPLOYMENT, &[]), "deployment.apps/web unchanged\nservice/web unchanged\n");
    let changed = DEPLOYMENT.replace("nginx:1", "nginx:2");
    assert_eq!(apply(&changed, &[]), "deployment.apps/web configured\nservice/web unchanged\n");
    assert!(within(&["get", "deployment", "web", "-o", "yaml"]).contains("image: nginx:2"));
    assert_eq!(within(&["scale", "deployment", "web", "--replicas=3"]), "deployment.apps/web scaled\n");
    assert_eq!(within(&["get", "deployment", "web", "-o", "jsonpath={.spec.replicas}"]), "3");
    assert_eq!(within(&["label", "deployment", "web", "tier=front"]), "deployment.apps/web labeled\n");
    assert_eq!(within(&["get", "deployments", "-l", "tier=front", "-o", "name"]), "deployment.apps/web\n");
    assert_eq!(within(&["annotate", "service", "web", "a=b"]), "service/web annotated\n");
    assert!(within(&["describe", "deployment", "web"]).contains("Replicas:"));
    assert!(within(&["set", "image", "deployment/web", "web=nginx:3"]).contains("image updated"));

    let mut watch = kubectl.start(&["-n", &namespace, "get", "pods", "-w", "-o", "name"]);
    assert_eq!(kubectl.ok_with_input(&["-n", &namespace, "create", "-f", "-"], POD), "pod/one created\n");
    watch.prints("pod/one");
    let policy = within(&["get", "pod", "one", "-o", "jsonpath={.spec.containers[0].imagePullPolicy}"]);
    assert_eq!(policy, "Always");
    assert!(within(&["describe", "pod", "one"]).contains("Name:"));
    assert_eq!(within(&["delete", "pod", "one", "--grace-period=0", "--force", "--wait=false"]).lines().count(), 1);

    assert!(within(&["api-resources"]).contains("deployments"));
    assert!(within(&["explain", "deployment.spec.replicas"]).contains("replicas"));
    assert_eq!(within(&["auth", "can-i", "create", "pods"]), "yes\n");
    assert!(within(&["delete", "deployment,service", "web"]).contains("deleted"));
    assert_eq!(within(&["get", "deployments", "-o", "name"]), "");
    let message = "Error from server (NotFound): error when creating \"STDIN\": namespaces \"nowhere\" not found";
    let done = kubectl.run_with_input(&["-n", "nowhere", "create", "-f", "-"], POD);
    assert_eq!(done.stderr.trim(), message);
    assert!(kubectl.ok(&["delete", "ns", &namespace, "--wait=false"]).contains("deleted"));
}

#[test]
fn an_afternoon_with_kube_apiserver_itself() {
    a_session(&admitting().kubectl(&User::admin()));
}

const PLUGINS: &str = "--enable-admission-plugins=AlwaysPullImages";
/// A real server here creates no service accounts, which the plugin requires for pods.
const WITHOUT_SERVICE_ACCOUNTS: &str = "--disable-admission-plugins=ServiceAccount";

#[test]
fn an_afternoon_with_the_embedded_server() {
    let proxy = Proxy::embedded(&[PLUGINS]);
    a_session(&proxy.kubectl(&User::admin()));
}

#[test]
fn an_afternoon_with_a_real_server() {
    let proxy = Proxy::before(upstream(), &[PLUGINS, WITHOUT_SERVICE_ACCOUNTS]);
    let kubectl = proxy.kubectl(&User::admin());
    a_session(&kubectl);

    let namespace = proxy.namespace("server-side");
    let apply = ["-n", &namespace, "apply", "--server-side", "-f", "-"];
    assert_eq!(kubectl.ok_with_input(&apply, POD), "pod/one serverside-applied\n");
    let policy = ["-n", &namespace, "get", "pod", "one", "-o", "jsonpath={.spec.containers[0].imagePullPolicy}"];
    assert_eq!(kubectl.ok(&policy), "Always");
    let changed = POD.replace("image: a, imagePullPolicy: IfNotPresent", "image: b");
    assert_eq!(kubectl.ok_with_input(&apply, &changed), "pod/one serverside-applied\n");
}

/// Changes an object with every command of kubectl.
fn a_day_of_changes(api: &Api) {
    let kubectl = api.kubectl(&User::admin());
    let namespace = api.namespace("changes");
    let within = |arguments: &[&str]| kubectl.ok(&[&["-n", &namespace], arguments].concat());
    let with_input =
        |arguments: &[&str], input: &str| kubectl.ok_with_input(&[&["-n", &*namespace], arguments].concat(), input);
    let of_web = |path: &str| within(&["get", "deployment", "web", "-o", &format!("jsonpath={{{path}}}")]);

    assert!(with_input(&["apply", "-f", "-"], DEPLOYMENT).contains("deployment.apps/web created"));
    let extended = DEPLOYMENT.replace("labels: {app: web}}\nspec:", "labels: {app: web, tier: front}}\nspec:");
    assert!(with_input(&["apply", "-f", "-"], &extended).contains("deployment.apps/web configured"));
    assert_eq!(of_web(".metadata.labels.tier"), "front");
    // Fields of the last configuration that are missing in this one are removed.
    assert!(with_input(&["apply", "-f", "-"], DEPLOYMENT).contains("deployment.apps/web configured"));
    assert_eq!(of_web(".metadata.labels.tier"), "");
    assert_eq!(with_input(&["diff", "-f", "-"], DEPLOYMENT), "");

    let edited = kubectl.edit(&["-n", &namespace, "edit", "deployment", "web"], "s/nginx:1/nginx:2/");
    assert_eq!(edited, "deployment.apps/web edited\n");
    assert_eq!(of_web(".spec.template.spec.containers[0].image"), "nginx:2");
    assert_eq!(
        within(&["scale", "deployment", "web", "--replicas=2", "--current-replicas=1"]),
        "deployment.apps/web scaled\n"
    );
    assert_eq!(within(&["rollout", "restart", "deployment", "web"]), "deployment.apps/web restarted\n");
    assert!(!of_web(".spec.template.metadata.annotations.kubectl\\.kubernetes\\.io/restartedAt").is_empty());
    assert_eq!(within(&["rollout", "pause", "deployment", "web"]), "deployment.apps/web paused\n");
    assert_eq!(within(&["set", "image", "deployment/web", "web=nginx:3"]), "deployment.apps/web image updated\n");
    assert_eq!(within(&["set", "env", "deployment/web", "A=b"]), "deployment.apps/web env updated\n");
    let limits = within(&["set", "resources", "deployment/web", "--limits=cpu=500m"]);
    assert_eq!(limits, "deployment.apps/web resource requirements updated\n");
    assert_eq!(within(&["annotate", "deployment", "web", "x=y"]), "deployment.apps/web annotated\n");
    assert_eq!(within(&["annotate", "deployment", "web", "x-"]), "deployment.apps/web annotated\n");
    assert_eq!(within(&["label", "deployment", "web", "app=site", "--overwrite"]), "deployment.apps/web labeled\n");
    let container = of_web(".spec.template.spec.containers[0]['image','env','resources','imagePullPolicy']");
    assert_eq!(container, r#"nginx:3 [{"name":"A","value":"b"}] {"limits":{"cpu":"500m"}} IfNotPresent"#);
    for (kind, patch) in [
        ("strategic", r#"{"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "nginx:4"}]}}}}"#),
        ("merge", r#"{"spec": {"replicas": 4}}"#),
        ("json", r#"[{"op": "add", "path": "/spec/paused", "value": false}]"#),
    ] {
        assert_eq!(
            within(&["patch", "deployment", "web", "--type", kind, "-p", patch]),
            "deployment.apps/web patched\n"
        );
    }
    assert_eq!((of_web(".spec.replicas"), of_web(".spec.paused")), ("4".to_owned(), String::new()));

    let server_side = ["apply", "--server-side", "--field-manager=team", "-f", "-"];
    let conflict = kubectl.run_with_input(&[&["-n", &*namespace], &server_side[..]].concat(), DEPLOYMENT);
    assert!(conflict.stderr.contains("Apply failed with"), "{}", conflict.stderr);
    let forced = [&server_side[..], &["--force-conflicts"]].concat();
    assert_eq!(
        with_input(&forced, DEPLOYMENT),
        "deployment.apps/web serverside-applied\nservice/web serverside-applied\n"
    );
    assert_eq!(of_web(".spec.template.spec.containers[0].image"), "nginx:1");
    assert_eq!(
        with_input(&server_side, DEPLOYMENT),
        "deployment.apps/web serverside-applied\nservice/web serverside-applied\n"
    );

    let other = DEPLOYMENT.replace("nginx:1", "nginx:9");
    let replaced = with_input(&["replace", "-f", "-"], &other);
    assert_eq!(replaced, "deployment.apps/web replaced\nservice/web replaced\n");
    assert!(within(&["autoscale", "deployment", "web", "--max=3"]).contains("web autoscaled"));
    assert!(within(&["create", "secret", "generic", "s", "--from-literal=a=b"]).contains("created"));
    assert!(within(&["create", "serviceaccount", "robot"]).contains("created"));
    assert!(within(&["create", "token", "robot", "--duration=10m"]).len() > 100);
    assert!(within(&["delete", "all,secrets,hpa", "--all", "--wait=false"]).contains("deleted"));
    assert_eq!(within(&["get", "deployments,services,secrets", "-o", "name"]), "");
}

#[test]
fn a_day_of_changes_with_kube_apiserver_itself() {
    a_day_of_changes(admitting());
}

#[test]
fn a_day_of_changes_with_a_real_server() {
    a_day_of_changes(&Proxy::before(upstream(), &[PLUGINS, WITHOUT_SERVICE_ACCOUNTS]));
}

#[test]
fn the_kubeconfig_that_serve_writes_is_all_a_user_needs() {
    let proxy = Proxy::alone(&["--write-kubeconfig=mine/kubeconfig"]);
    let path = proxy.folder().join("mine/kubeconfig");
    let line = format!("export KUBECONFIG={}\n", path.display());
    eventually("the line that a shell takes", || proxy.output().contains(&line).then_some(()));
    let kubectl = Kubectl::new(path);
    assert!(kubectl.ok(&["get", "ns", "-o", "name"]).contains("namespace/default"));
    assert!(kubectl.ok(&["auth", "whoami"]).contains("system:masters"));
}

#[test]
fn a_real_servers_refusals_read_the_same_through_the_proxy() {
    let proxy = Proxy::before(upstream(), &[]);
    for (user, arguments) in [
        (User::named("mallory", ""), &["get", "pods"][..]),
        (User::named("mallory", ""), &["create", "configmap", "x"]),
        (User::admin(), &["get", "pods", "missing"]),
        (User::admin(), &["create", "namespace", "Not_A_Name"]),
        (User::admin(), &["get", "no-such-kind"]),
    ] {
        let direct = upstream().kubectl(&user).run(arguments);
        assert!(!direct.success, "{arguments:?}");
        assert_eq!(proxy.kubectl(&user).run(arguments), direct, "{arguments:?}");
    }
}

#[test]
fn explanations_are_those_of_kube_apiserver() {
    let embedded = Proxy::embedded(&[]);
    let kubectl = [upstream().kubectl(&User::admin()), embedded.kubectl(&User::admin())];
    for arguments in [
        &["pod"][..],
        &["pod.spec.containers"],
        &["deployments.spec.strategy", "--recursive"],
        &["service.spec.ports.targetPort"],
        &["validatingadmissionpolicies.spec.validations.expression"],
        &["customresourcedefinitions.spec.versions.schema"],
        &["apiservices.spec"],
        &["horizontalpodautoscalers", "--api-version=autoscaling/v1"],
        &["pod.spec", "--output=plaintext-openapiv2"],
    ] {
        let [expected, got] = kubectl.each_ref().map(|kubectl| kubectl.ok(&[&["explain"], arguments].concat()));
        assert_eq!(got, expected, "{arguments:?}");
        assert!(!got.contains("<empty>"), "{got}");
    }
}
