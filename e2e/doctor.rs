//! An installation that lacks something: `doctor`, readiness and the log say what.

use crate::guard::print;
use crate::harness::{Api, Proxy, Request, User, eventually, folder, free_port, get, post, put, unique, upstream};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

fn flag(kubeconfig: &Path) -> String {
    format!("--upstream-kubeconfig={}", kubeconfig.display())
}

/// The outcome of each check of this name, and the texts.
fn of<'a>(findings: &'a [Value], check: &str) -> Vec<(&'a str, &'a str)> {
    let named = findings.iter().filter(|finding| finding["check"] == check);
    named.map(|finding| (finding["outcome"].as_str().unwrap(), finding["found"].as_str().unwrap())).collect()
}

#[test]
fn a_complete_installation_has_no_failure() {
    let kubeconfig = upstream().kubeconfig(&User::named("admission-proxy", "system:masters"));
    let (code, findings) = Proxy::examined(&[&flag(&kubeconfig)]);
    assert_eq!(code, 0, "{findings:#?}");
    for check in
        ["address", "credentials", "rights", "rights of plugins", "rights to stored objects", "release", "clock"]
    {
        let found = of(&findings, check);
        assert_eq!(found.iter().map(|(outcome, _)| *outcome).collect::<Vec<_>>(), ["ok"], "{check}: {found:?}");
    }
    assert_eq!(of(&findings, "credentials"), [("ok", "the user is \"admission-proxy\"")]);
    assert!(of(&findings, "certificates").iter().all(|(outcome, _)| *outcome == "ok"), "{findings:#?}");
}

#[test]
fn missing_rights_keep_the_proxy_from_being_ready_until_the_printed_role_is_bound() {
    let user = unique("reader");
    let role = |name: &str, rules: Value| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
    let binding = |name: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]})
    };
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let accepted = |request: Request| {
        let answer = upstream().send(&User::admin(), request);
        assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
    };
    let reads = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
        {"nonResourceURLs": ["*"], "verbs": ["get"]}]);
    accepted(post(&format!("{rbac}/clusterroles"), &role(&user, reads)));
    accepted(post(&format!("{rbac}/clusterrolebindings"), &binding(&user)));

    let kubeconfig = upstream().kubeconfig(&User::named(&user, ""));
    let proxy = Proxy::starting(&kubeconfig, &[]);
    eventually("a proxy that lacks rights", || {
        let (code, lines) = proxy.health("/readyz?verbose")?;
        (code == 500 && lines.contains("[-]upstream-rights failed") && lines.contains("[+]informer-sync ok"))
            .then_some(())
    });
    let missing = format!(
        "the user \"{user}\" of --upstream-kubeconfig may not create tokenreviews.authentication.k8s.io, \
         subjectaccessreviews.authorization.k8s.io; impersonate users, groups, serviceaccounts, uids.authentication.k8s.io: bind the \
         ClusterRole of \"kube-admission-proxy print rbac\""
    );
    // A line of the log is quoted.
    let missing = missing.replace('"', "\\\"");
    let output = proxy.output();
    let warned = output.lines().filter(|line| line.starts_with('W')).filter(|line| line.contains(&missing)).count();
    assert_eq!(warned, 1, "{output}");
    let (code, findings) = Proxy::examined(&[&flag(&kubeconfig)]);
    let rights = of(&findings, "rights");
    assert!(
        code == 1 && rights[0].0 == "failure" && rights[0].1.contains("impersonate users, groups"),
        "{findings:#?}"
    );
    assert_eq!(of(&findings, "rights of plugins")[0].0, "failure", "ResourceQuota updates the status of quotas");

    let printed = kubernetes_object::decode::yaml(print(&["rbac"]).as_bytes()).unwrap().value;
    let granted = format!("{user}-complete");
    accepted(post(&format!("{rbac}/clusterroles"), &role(&granted, printed["rules"].clone())));
    accepted(post(
        &format!("{rbac}/clusterrolebindings"),
        &json!({"metadata": {"name": granted}, "roleRef": binding(&granted)["roleRef"],
        "subjects": binding(&granted)["subjects"]}),
    ));
    let proxy = proxy.ready();
    assert_eq!(proxy.send(&User::admin(), get("/api/v1/namespaces/default")).status, 200);
    let (code, findings) = Proxy::examined(&[&flag(&kubeconfig)]);
    assert_eq!(code, 0, "{findings:#?}");
}

#[test]
fn an_api_server_that_does_not_answer_is_one_line_and_503() {
    let kubeconfig = Api { port: free_port() }.kubeconfig(&User::named("admission-proxy", "system:masters"));
    let tokens = folder("tokens").join("tokens.csv");
    fs::write(&tokens, "known,alice,1,\"system:masters\"\n").unwrap();
    let proxy = Proxy::starting(&kubeconfig, &[&format!("--token-auth-file={}", tokens.display())]);
    eventually("a proxy that listens", || proxy.try_send(&User::admin(), get("/version")).ok());
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}});
    let maps = "/api/v1/namespaces/default/configmaps";
    let [known, unknown] = ["known", "unknown"].map(|token| User::Token(token.to_owned()));
    for (user, request) in [
        (&known, get(maps)),
        (&known, post(maps, &map)),
        (&known, put(&format!("{maps}/one"), &map)),
        (&unknown, get(maps)),
        (&unknown, post(maps, &map)),
    ] {
        let what = format!("{} {}", request.method, request.path);
        let answer = proxy.send(user, request);
        let status = answer.json();
        assert_eq!((answer.status, &status["reason"]), (503, &json!("ServiceUnavailable")), "{what}: {status}");
        let text = "error trying to reach service: no answer from the API server behind the proxy";
        assert_eq!((&status["message"], answer.header("retry-after")), (&json!(text), vec!["1".to_owned()]), "{what}");
    }
    let warnings =
        |output: &str| output.lines().filter(|line| line.starts_with('W')).map(str::to_owned).collect::<Vec<_>>();
    eventually("the line about the API server", || proxy.output().contains("does not answer").then_some(()));
    let lines = warnings(&proxy.output());
    let [line] = &lines[..] else { panic!("{lines:#?}") };
    let advice = "does not answer: start the API server, or correct the port of `server` in the kubeconfig";
    assert!(line.contains(advice) && line.contains(&*kubeconfig.display().to_string()), "{line}");
    let (code, findings) = Proxy::examined(&[&flag(&kubeconfig)]);
    assert!(code == 1 && of(&findings, "address")[0].1.contains("refused"), "{findings:#?}");
}

#[test]
fn a_hangup_is_no_end_and_says_what_it_does() {
    let policy = folder("audit").join("policy.yaml");
    let of_level = |level: &str| format!("{{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{{level: {level}}}]}}");
    fs::write(&policy, of_level("None")).unwrap();
    let log = policy.with_file_name("audit.log");
    let flags = [format!("--audit-policy-file={}", policy.display()), format!("--audit-log-path={}", log.display())];
    let proxy = Proxy::embedded(&[&flags[0], &flags[1]]);
    proxy.hang_up();
    eventually("the answer to the signal", || {
        let output = proxy.output();
        let is_told = output.contains("SIGHUP: ") && output.contains("read again: unchanged");
        (is_told && output.contains("policy.yaml")).then_some(())
    });
    assert_eq!(proxy.send(&User::admin(), get("/version")).status, 200);
    assert_eq!(fs::read_to_string(&log).unwrap(), "");
    fs::write(&policy, of_level("Metadata")).unwrap();
    proxy.hang_up();
    eventually("an event by the new policy", || {
        proxy.send(&User::admin(), get("/version"));
        fs::read_to_string(&log).unwrap().contains("\"requestURI\":\"/version\"").then_some(())
    });
}

#[test]
fn the_printed_installation_and_its_commands_make_a_complete_proxy() {
    let namespace = unique("installed");
    let printed = print(&["install", &format!("--namespace={namespace}")]);
    let work = folder("installation");
    fs::write(work.join("install.yaml"), &printed).unwrap();
    let administrator = upstream().kubeconfig(&User::admin());
    let commands: Vec<&str> = printed.lines().filter_map(|line| line.strip_prefix("#   ")).collect();
    let script = format!("set -eu\nkubectl apply --filename=install.yaml\n{}\n", commands.join("\n"));
    let assets = std::env::var("KUBEBUILDER_ASSETS").unwrap();
    let path = format!("{assets}:{}", std::env::var("PATH").unwrap());
    let mut shell = std::process::Command::new("sh");
    let done = shell
        .current_dir(&work)
        .args(["-c", &script])
        .env("PATH", path)
        .env("KUBECONFIG", &administrator)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let kubeconfig = work.join("upstream.kubeconfig");
    let (code, findings) = Proxy::examined(&[&flag(&kubeconfig)]);
    assert_eq!(code, 0, "{findings:#?}");
    let user = format!("the user is \"system:serviceaccount:{namespace}:kube-admission-proxy\"");
    assert_eq!(of(&findings, "credentials"), [("ok", &*user)]);
    let proxy = Proxy::before_kubeconfig(&kubeconfig, &[]);
    assert_eq!(proxy.send(&User::admin(), get("/api/v1/namespaces/default")).status, 200);
}
