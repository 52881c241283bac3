use super::profile::{Member, MemberKind};
use super::*;
use crate::request::request_info;
use crate::user::UserInfo;
use http::{HeaderMap, HeaderValue, Method, Uri};
use std::path::Path;

const PLUGINS: [&str; 3] = ["AlwaysPullImages", "PodNodeSelector", "Initializers"];
const HEAD: &str = "apiVersion: config.kube-admission-proxy.dev/v1alpha1\nkind: Tenant\n";

fn written(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn file(name: &str, spec: &str) -> String {
    format!("{HEAD}metadata: {{name: {name}}}\nspec:\n{spec}\n")
}

/// The errors of a folder with these tenants and a valid `default`, without the folder's path.
fn faults(files: &[(&str, String)]) -> Vec<String> {
    let folder = written(&[]);
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    if files.iter().all(|(name, _)| *name != "default.yaml") {
        std::fs::write(folder.path().join("default.yaml"), file("default", "  admission: {}")).unwrap();
    }
    let place = format!("{}/", folder.path().display());
    let found = read(folder.path(), &PLUGINS).err().unwrap_or_default();
    found.iter().map(|fault| fault.to_string().replace(&place, "")).collect()
}

/// A tenant with these groups, namespaces and server names.
fn tenant(name: &str, groups: &[&str], namespaces: &[&str], servers: &[&str]) -> TenantFile {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let of_group = |name: &&str| Member { kind: MemberKind::Group, name: (*name).to_owned(), namespace: String::new() };
    let mut tenant = TenantFile::named(name);
    tenant.profile.members = groups.iter().map(of_group).collect();
    tenant.profile.namespaces.names = owned(namespaces);
    tenant.profile.server_names = owned(servers);
    tenant
}

fn tenants() -> Vec<TenantFile> {
    let mut all = vec![
        tenant("blue", &["team-blue", "both"], &["blue-*", "shop"], &["blue.example.com"]),
        tenant(DEFAULT, &[], &[], &[]),
        tenant("green", &["team-green", "both"], &["green-*"], &["green.example.com"]),
        tenant("operators", &["ops"], &[], &[]),
        tenant("red", &["team-red"], &["blue-*"], &[]),
    ];
    all[4].profile.upstream = Some(profile::Upstream { kubeconfig: "red.kubeconfig".to_owned(), ..Default::default() });
    for (at, namespace) in [(0, "blue-ci"), (4, "red-ci")] {
        let account =
            Member { kind: MemberKind::ServiceAccount, name: "*".to_owned(), namespace: namespace.to_owned() };
        all[at].profile.members.push(account);
    }
    all
}

fn user(name: &str, groups: &[&str]) -> UserInfo {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    UserInfo { username: name.to_owned(), groups, ..UserInfo::default() }
}

#[test]
fn a_service_account_is_a_member_if_nobody_else_can_make_its_namespace() {
    let account =
        |namespace: &str| format!("  members: [{{kind: ServiceAccount, namespace: {namespace}, name: '*'}}]\n");
    let upstream = "  upstream: {kubeconfig: default.yaml}";
    let foreign = "must be one of spec.namespaces.names: whoever creates it would be a member";
    let of = |spec: String| faults(&[("blue.yaml", file("blue", &spec))]);
    assert_eq!(of(format!("{}  namespaces: {{names: [blue-*, ci]}}", account("blue-x"))), Vec::<String>::new());
    assert_eq!(of(format!("{}  namespaces: {{names: [blue-*, ci]}}", account("ci"))), Vec::<String>::new());
    assert!(of(format!("{}  namespaces: {{names: [blue-*]}}", account("blue")))[0].ends_with(foreign));
    assert!(of(account("kube-system"))[0].ends_with(foreign));
    // The API server is the tenant's own.
    assert_eq!(of(format!("{}{upstream}", account("ci"))), Vec::<String>::new());
    let other = file("green", &format!("  members: [{{kind: User, name: a}}]\n{upstream}"));
    let shared = faults(&[("blue.yaml", file("blue", &format!("{}{upstream}", account("ci")))), ("green.yaml", other)]);
    assert!(shared.len() == 1 && shared[0].ends_with(foreign), "{shared:?}");
    // Operators have no namespaces of their own: nobody else may create those of their service accounts.
    assert_eq!(faults(&[("operators.yaml", file("operators", &account("flux")))]), Vec::<String>::new());
    let mut operators = tenant(OPERATORS, &[], &[], &[]);
    operators.profile.members.push(Member {
        kind: MemberKind::ServiceAccount,
        name: "*".into(),
        namespace: "flux".into(),
    });
    let owners = Owners::new(&[operators], &None);
    assert!(owners.is_of_operators("flux") && !owners.is_of_operators("flux-2"));
    assert_eq!(owners.by_name("flux"), None);
}

#[test]
fn an_error_names_file_line_and_field() {
    let member = "  members: [{kind: User, name: a}]\n";
    for (text, wanted) in [
        (
            file("blue", "  members:\n  - {kind: User, name: ''}"),
            "t.yaml:6: spec.members[0]: name \"\" must be a name, without *",
        ),
        (file("blue", "  members: []"), "t.yaml:5: spec.members: must name a member"),
        (
            file("blue", &format!("{member}  admission:\n    enablePlugins:\n    - AlwaysPullImages\n    - Nope")),
            "t.yaml:9: spec.admission.enablePlugins[1]: plugin \"Nope\" is unknown (\"kube-admission-proxy plugins\" lists all)",
        ),
        (
            file("blue", &format!("{member}  admission: {{enablePlugins: [Initializers]}}")),
            "t.yaml:6: spec.admission.enablePlugins[0]: Initializers cannot differ between tenants: use --enable-admission-plugins",
        ),
        (
            file("blue", &format!("{member}  admission: {{base: green}}")),
            "t.yaml:6: spec.admission.base: there is no tenant \"green\"",
        ),
        (
            file("blue", &format!("{member}  admission: {{base: blue}}")),
            "t.yaml:6: spec.admission.base: leads back to this tenant",
        ),
        (
            file("blue", &format!("{member}  limits:\n    bodyBytes: 0")),
            "t.yaml:7: spec.limits.bodyBytes: must be more than 0",
        ),
        (
            file("blue", &format!("{member}  limits: {{writeBurst: 5}}")),
            "t.yaml:6: spec.limits.writeBurst: has no effect without writesPerSecond",
        ),
        (
            file(
                "blue",
                "  members:\n  - {kind: ServiceAccount, namespace: ci, name: bot}\n  namespaces: {names: [blue-*]}",
            ),
            "t.yaml:6: spec.members[0]: namespace \"ci\" must be one of spec.namespaces.names: whoever creates it would be a member",
        ),
        (
            file(
                "blue",
                &format!("{member}  upstream: {{kubeconfig: t.yaml, webhookTargets: [10.0.0.0/8, '10.0.0.0/33']}}"),
            ),
            "t.yaml:6: spec.upstream.webhookTargets[1]: \"10.0.0.0/33\" must be an IP address, a CIDR, a DNS name, or a DNS name after \"*.\"",
        ),
        (
            file("blue", &format!("{member}  serverNames: [BLUE.example.com]")),
            "t.yaml:5: spec.serverNames[0]: \"BLUE.example.com\" must be a DNS name in lower case, without a port or a wildcard",
        ),
        (
            file("blue", &format!("{member}  namespaces: {{names: ['*']}}")),
            "t.yaml:6: spec.namespaces.names[0]: \"*\" must be the name of a namespace, or the beginning of one followed by *",
        ),
        (
            file(
                "blue",
                &format!("{member}  authorization: {{ownNamespacesOnly: false}}\n  tls: {{clientCAFile: t.yaml}}"),
            ),
            "t.yaml:7: spec.tls.clientCAFile: needs ownNamespacesOnly or an upstream: the authorities could name any user of the shared \
             API server",
        ),
        (
            file("blue", &format!("{member}  tls: {{clientCAFile: none.crt}}")),
            "t.yaml:6: spec.tls.clientCAFile: none.crt: No such file or directory (os error 2)",
        ),
        (file("Blue", member), "t.yaml:3: metadata.name: \"Blue\" must be a DNS label other than \"none\""),
        (
            file("blue", member).replace("v1alpha1", "v9"),
            "t.yaml:1: apiVersion: must be \"config.kube-admission-proxy.dev/v1alpha1\"",
        ),
        ("kind: Other\n".to_owned(), "t.yaml:1: kind: must be \"Tenant\", unless a tenant names the file"),
        (
            file("operators", &format!("{member}  serverNames: [a.example.com]")),
            "t.yaml:6: spec.serverNames: must be empty: the tenant is not addressed by a server name",
        ),
    ] {
        let found = faults(&[("t.yaml", text.clone())]);
        // A flow collection is on the line of its key.
        let plain = |text: &str| text.split_once(' ').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
        assert!(found.iter().any(|fault| plain(fault) == plain(wanted)), "{text}\n{found:#?}\n{wanted}");
        assert!(found.iter().all(|fault| fault.starts_with("t.yaml:")), "{found:#?}");
    }
}

#[test]
fn the_line_is_that_of_the_field() {
    let text = file(
        "blue",
        "  members:\n  - {kind: User, name: a}\n  - {kind: Group, name: '*'}\n  limits:\n    bodyBytes: 0",
    );
    let found = faults(&[("t.yaml", text)]);
    assert_eq!(
        found,
        [
            "t.yaml:7: spec.members[1]: name \"*\" must be a name, without *",
            "t.yaml:9: spec.limits.bodyBytes: must be more than 0"
        ]
    );
}

#[test]
fn an_unknown_field_and_broken_yaml_are_errors_with_a_line() {
    for spec in [
        "  members: [{kind: User, name: a}]\n  membres: []",
        "  upstream: {kubeconfig: a, identity: passthrough}",
        "  admission: {fromAPI: {webhooks: Some}}",
        "  members: [",
    ] {
        let found = faults(&[("t.yaml", file("blue", spec))]);
        assert_eq!(found.len(), 1, "{found:#?}");
        let line: Vec<&str> = found[0].splitn(3, ':').collect();
        assert!(line[0] == "t.yaml" && line[1].parse::<usize>().is_ok_and(|line| line >= 5), "{found:#?}");
    }
}

#[test]
fn tenants_are_validated_together() {
    let members = "  members: [{kind: User, name: a}]\n";
    let one = |name: &str, rest: &str| file(name, &format!("{members}{rest}"));
    let pair = |a: &str, b: &str| faults(&[("a.yaml", one("a", a)), ("b.yaml", one("b", b))]);
    let servers = "  serverNames: [x.example.com]";
    assert_eq!(
        pair(servers, servers),
        ["b.yaml:6: spec.serverNames[0]: \"x.example.com\" already addresses the tenant \"a\""]
    );
    for (a, b, overlap) in [
        ("x-*", "x-y", true),
        ("x-*", "x-*", true),
        ("x-*", "x-y-*", true),
        ("x", "x", true),
        ("x-*", "x", false),
        ("x", "x-*", false),
        ("x-a*", "x-b*", false),
    ] {
        let names = |name: &str| format!("  namespaces: {{names: ['{name}']}}");
        assert_eq!(pair(&names(a), &names(b)).len(), usize::from(overlap), "{a} {b}");
    }
    assert_eq!(
        faults(&[("a.yaml", one("a", "")), ("b.yaml", one("a", ""))]),
        ["b.yaml:3: metadata.name: is also the name in a.yaml"]
    );
    let base = |base: &str| format!("  admission: {{base: {base}}}");
    assert_eq!(pair(&base("b"), &base("a")).len(), 2);
    let folder = written(&[("a.yaml", &one("a", ""))]);
    let found = read(folder.path(), &PLUGINS).unwrap_err();
    assert!(found[0].why.starts_with("must have a file of the tenant \"default\""), "{found:?}");
    assert!(read(Path::new("/not/there"), &PLUGINS).is_err());
}

#[test]
fn a_file_that_a_tenant_names_is_no_tenant() {
    let spec = "  members: [{kind: User, name: a}]\n  admission: {pluginConfig: admission.yaml}";
    let text = file("blue", spec);
    assert_eq!(faults(&[("t.yaml", text), ("admission.yaml", "kind: AdmissionConfiguration\n".to_owned())]), [""; 0]);
}

#[test]
fn a_file_with_the_same_bytes_is_not_parsed_again() {
    let member = "  members: [{kind: User, name: a}]";
    let folder = written(&[
        ("blue.yaml", &file("blue", member)),
        ("default.yaml", &file("default", "  admission: {}")),
        ("green.yaml", &file("green", member)),
    ]);
    let mut files = Files::default();
    let first = read_again(folder.path(), &PLUGINS, &mut files).unwrap();
    std::fs::write(folder.path().join("green.yaml"), file("green", "  members: [{kind: User, name: b}]")).unwrap();
    std::fs::write(folder.path().join("red.yaml"), "kind: Tenant").unwrap();
    assert_eq!(read_again(folder.path(), &PLUGINS, &mut files).unwrap_err().len(), 1);
    std::fs::remove_file(folder.path().join("red.yaml")).unwrap();
    let second = read_again(folder.path(), &PLUGINS, &mut files).unwrap();
    let same: Vec<bool> = first.iter().zip(&second).map(|(one, other)| std::sync::Arc::ptr_eq(one, other)).collect();
    assert_eq!(same, [true, true, false]);
    assert_eq!(second[2].profile.members[0].name, "b");
    std::fs::remove_file(folder.path().join("green.yaml")).unwrap();
    assert_eq!(read_again(folder.path(), &PLUGINS, &mut files).unwrap().len(), 2);
}

#[test]
fn objects_of_the_api_are_all_none_or_those_with_labels() {
    let read = |from_api: &str| {
        let text = file("blue", &format!("  members: [{{kind: User, name: a}}]\n  admission: {{fromAPI: {from_api}}}"));
        let folder = written(&[("t.yaml", &text), ("default.yaml", &file("default", "  admission: {}"))]);
        let all = read(folder.path(), &PLUGINS).unwrap();
        all[0].profile.admission.from_api.clone()
    };
    let labels = std::collections::BTreeMap::from([("team".to_owned(), "blue".to_owned())]);
    let found = read("{webhooks: None, policies: {matchLabels: {team: blue}}}");
    assert_eq!((found.webhooks, found.policies), (profile::Which::None, profile::Which::Labelled(labels)));
    assert_eq!(read("{webhooks: All}"), profile::FromApi::default());
}

#[test]
fn tenants_of_one_kubeconfig_reach_it_in_one_way() {
    let of = |more: &str| format!("  members: [{{kind: User, name: a}}]\n  upstream: {{kubeconfig: k{more}}}");
    let found = |one: &str, other: &str| {
        faults(&[
            ("blue.yaml", file("blue", &of(one))),
            ("green.yaml", file("green", &of(other))),
            ("k", String::new()),
        ])
    };
    assert_eq!(found(", groupPrefix: 'via:'", ", groupPrefix: 'via:', identity: impersonate"), Vec::<String>::new());
    for (other, why) in [
        (
            ", identity: requestheader",
            "green.yaml:6: spec.upstream: must have the identity, the groupPrefix and the webhookTargets of the tenant \"blue\", which has the same kubeconfig",
        ),
        (
            ", groupPrefix: 'via:'",
            "green.yaml:6: spec.upstream: must have the identity, the groupPrefix and the webhookTargets of the tenant \"blue\", which has the same kubeconfig",
        ),
    ] {
        assert_eq!(found("", other), [why]);
    }
    let prefix = ", groupPrefix: 'system:'";
    let invalid = "spec.upstream.groupPrefix: must not be the beginning of Kubernetes' own groups (system:)";
    assert_eq!(found(prefix, prefix), [format!("blue.yaml:6: {invalid}"), format!("green.yaml:6: {invalid}")]);
}

#[test]
fn the_address_is_path_server_name_or_host_and_they_agree() {
    let addresses = TenantAddresses::new(&tenants());
    let (blue, green) = (Ok(Addressed::Tenant(0)), Ok(Addressed::Tenant(2)));
    let (none, unknown, contradiction, hosts) =
        (Ok(Addressed::None), Err(Misaddressed::Unknown), Err(Misaddressed::Contradiction), Err(Misaddressed::Hosts));
    for (uri, server_name, host, wanted) in [
        ("/api", None, None, none),
        ("/api", None, Some("127.0.0.1:6443"), none),
        ("/tenants/blue/api", None, Some("127.0.0.1"), blue),
        ("/tenants/blue", None, None, blue),
        ("/tenants/operators/api", None, None, Ok(Addressed::Tenant(3))),
        ("/tenants/default/api", None, None, unknown),
        ("/tenants/pink/api", None, None, unknown),
        ("/api", Some("blue.example.com"), Some("blue.example.com"), blue),
        ("/api", Some("blue.example.com"), Some("10.0.0.1"), blue),
        ("/api", None, Some("green.example.com:6443"), green),
        ("/api", None, Some("GREEN.example.com"), green),
        ("/api", None, Some("green.example.com."), green),
        ("/tenants/green/api", Some("green.example.com"), None, green),
        ("/api", Some("blue.example.com"), Some("green.example.com"), contradiction),
        ("/tenants/green/api", Some("blue.example.com"), None, contradiction),
        ("/tenants/green/api", None, Some("blue.example.com"), contradiction),
        ("/api", None, Some("a@green.example.com"), hosts),
        ("https://green.example.com/api", None, Some("blue.example.com"), hosts),
        ("https://green.example.com/api", None, Some("green.example.com"), green),
        ("https://green.example.com/api", None, None, green),
        ("https://x@green.example.com/api", None, None, hosts),
    ] {
        let uri: Uri = uri.parse().unwrap();
        let headers = host.map(|host| (http::header::HOST, HeaderValue::from_str(host).unwrap()));
        let headers = HeaderMap::from_iter(headers);
        let split = split_path(&uri);
        let found =
            split.and_then(|split| addresses.find(split.as_ref().map(|(name, _)| *name), server_name, &uri, &headers));
        assert_eq!(found, wanted, "{uri} {server_name:?} {host:?}");
    }
    let mut two = HeaderMap::new();
    for host in ["blue.example.com", "green.example.com"] {
        two.append(http::header::HOST, HeaderValue::from_static(host));
    }
    assert_eq!(addresses.find(None, None, &Uri::from_static("/"), &two), hosts);
}

#[test]
fn the_path_is_stripped_once_and_never_by_another_spelling() {
    for (path, wanted) in [
        ("/tenants/blue/api/v1/pods?watch=1", Some("/api/v1/pods?watch=1")),
        ("/tenants/blue/", Some("/")),
        ("/tenants/blue", Some("/")),
        ("/tenants/blue?x=1", Some("/?x=1")),
    ] {
        let uri: Uri = path.parse().unwrap();
        let (name, rest) = split_path(&uri).unwrap().unwrap();
        assert_eq!((name, Some(rest.to_string().as_str())), ("blue", wanted), "{path}");
    }
    for path in [
        "/tenants",
        "/tenants/",
        "/tenants//api",
        "/tenants/../api",
        "/tenants/%2e%2e/api",
        "/tenants/./blue/api",
        "/tenants/%62lue/api",
        "/tenants/blue%2fapi",
        "/tenants/blue;x/api",
        "/tenants/BLUE/api",
        "/tenants/blue./api",
        "/tenants/blue//api",
        "/tenants/blue/tenants/green/api",
        "/tenants/blue/%74enants/green/api",
        "/%74enants/blue/api",
        "/Tenants/blue/api",
        "//tenants/blue/api",
    ] {
        assert_eq!(split_path(&path.parse().unwrap()).err(), Some(Misaddressed::Unknown), "{path}");
    }
    assert_eq!(split_path(&Uri::from_static("/api/v1/tenants")), Ok(None));
    assert_eq!(split_path(&Uri::from_static("*")), Ok(None));
}

#[test]
fn a_name_counts_only_where_its_authority_is_trusted() {
    let members = Members::new(&tenants());
    let of = |user: &UserInfo, origin| members.of(user, origin).tenants;
    let blue = user("alice", &["team-blue"]);
    for (origin, wanted) in [
        (Origin::Process, vec![0]),
        (Origin::ApiServer(0), vec![0]),
        (Origin::ApiServer(1), vec![0]),
        (Origin::ApiServer(4), vec![]),
        (Origin::Tenant(0), vec![0]),
        (Origin::Tenant(2), vec![]),
    ] {
        assert_eq!(of(&blue, origin), wanted, "{origin:?}");
    }
    let account = user("system:serviceaccount:blue-ci:deploy", &[]);
    assert_eq!(of(&account, Origin::ApiServer(1)), [0]);
    // The API server of red has a namespace of that name too, which is no member of blue.
    assert_eq!(of(&account, Origin::ApiServer(4)), [0; 0]);
    assert_eq!(of(&user("eve", &["team-blue", "team-green"]), Origin::Process), [0, 2]);
    assert_eq!(of(&user("eve", &["both"]), Origin::Process), [0, 2]);
    assert_eq!(of(&user("team-blue", &[]), Origin::Process), [0; 0]);
    assert!(members.of(&user("root", &["ops"]), Origin::Process).is_operator);
    assert!(!members.of(&user("root", &["ops"]), Origin::ApiServer(4)).is_operator);
}

#[test]
fn impersonation_leads_into_no_other_tenant_and_out_of_none() {
    let caller = |tenants: &[usize], is_operator| Membership { tenants: tenants.to_vec(), is_operator };
    for (from, to, wanted) in [
        (caller(&[0], false), caller(&[0], false), Some(caller(&[0], false))),
        (caller(&[0, 2], false), caller(&[2], false), Some(caller(&[2], false))),
        (caller(&[0], false), caller(&[2], false), None),
        (caller(&[0], false), caller(&[], false), None),
        (caller(&[], false), caller(&[0], false), None),
        (caller(&[], false), caller(&[], false), Some(caller(&[], false))),
        (caller(&[], false), caller(&[3], true), None),
        (caller(&[0], false), caller(&[0, 3], true), Some(caller(&[0], false))),
        (caller(&[3], true), caller(&[0], false), Some(caller(&[0], false))),
        (caller(&[3], true), caller(&[3], true), Some(caller(&[3], true))),
    ] {
        assert_eq!(from.acting_as(&to), wanted, "{from:?} {to:?}");
    }
}

#[test]
fn a_namespace_is_of_its_label_or_name_and_a_contradiction_has_no_tenant() {
    let (all, of) = (tenants(), |name: &str| Owner::Tenant(name.to_owned()));
    let owners = Owners::new(&all, &None);
    for (name, label, wanted) in [
        ("blue-a", None, of("blue")),
        ("blue-", None, of("blue")),
        ("blue", None, Owner::None),
        ("shop", None, of("blue")),
        ("shop-2", None, Owner::None),
        ("other", Some("green"), of("green")),
        ("other", Some("nobody"), of("nobody")),
        ("blue-a", Some("blue"), of("blue")),
        ("blue-a", Some("green"), Owner::Contradiction),
        ("other", Some(""), of("")),
        ("default", None, Owner::None),
    ] {
        assert_eq!(owners.owner(name, label), wanted, "{name} {label:?}");
    }
    // The shorter of two beginnings says all, whichever comes first.
    for names in [["a*", "ab*", "b"], ["ab*", "a*", "b"]] {
        let owners = Owners::new(&[tenant("one", &[], &names, &[]), tenant("two", &[], &["c-*"], &[])], &None);
        let found =
            ["a", "aa", "ab", "abc", "ac", "b", "bc", "c", "c-", "c-d", "d", ""].map(|name| owners.by_name(name));
        let one = Some("one");
        let two = Some("two");
        assert_eq!(found, [one, one, one, one, one, one, None, None, two, two, None, None], "{names:?}");
    }
    let of_red = Owners::new(&all, &all[4].kubeconfig());
    assert_eq!(of_red.owner("blue-a", None), of("red"));
}

#[test]
fn the_namespaces_that_a_request_needs_follow_from_its_url() {
    for (method, uri, wanted) in [
        ("GET", "/", NamespaceNeed::Nothing),
        ("GET", "/api", NamespaceNeed::Nothing),
        ("GET", "/api/v1", NamespaceNeed::Nothing),
        ("GET", "/apis/apps/v1", NamespaceNeed::Nothing),
        ("GET", "/openapi/v3/apis/apps/v1", NamespaceNeed::Nothing),
        ("GET", "/version", NamespaceNeed::Nothing),
        ("POST", "/version", NamespaceNeed::Cluster),
        ("GET", "/metrics", NamespaceNeed::Cluster),
        ("GET", "/debug/pprof/profile", NamespaceNeed::Cluster),
        ("GET", "/logs/x", NamespaceNeed::Cluster),
        ("GET", "/apisx", NamespaceNeed::Cluster),
        ("GET", "/api/v1/pods", NamespaceNeed::Cluster),
        ("GET", "/api/v1/pods?watch=1", NamespaceNeed::Cluster),
        ("GET", "/api/v1/watch/pods", NamespaceNeed::Cluster),
        ("DELETE", "/api/v1/pods", NamespaceNeed::Cluster),
        ("GET", "/api/v1/nodes/n", NamespaceNeed::Cluster),
        ("GET", "/api/v1/nodes/n/proxy/x", NamespaceNeed::Cluster),
        ("GET", "/api/v1/namespaces", NamespaceNeed::Cluster),
        ("DELETE", "/api/v1/namespaces", NamespaceNeed::Cluster),
        ("POST", "/api/v1/namespaces", NamespaceNeed::NewNamespace),
        ("POST", "/api/v1/namespaces?dryRun=All", NamespaceNeed::NewNamespace),
        ("POST", "/apis/x/v1/namespaces", NamespaceNeed::Cluster),
        ("GET", "/api/v1/namespaces/a", NamespaceNeed::Namespace("a")),
        ("PUT", "/api/v1/namespaces/a/finalize", NamespaceNeed::Namespace("a")),
        ("PATCH", "/api/v1/namespaces/a/status", NamespaceNeed::Namespace("a")),
        ("GET", "/api/v1/namespaces/a/namespaces/b", NamespaceNeed::Cluster),
        ("GET", "/apis/x/v1/namespaces/a", NamespaceNeed::Cluster),
        ("GET", "/api/v1/namespaces/a/pods", NamespaceNeed::Namespace("a")),
        ("GET", "/api/v1/watch/namespaces/a/pods", NamespaceNeed::Namespace("a")),
        ("GET", "/api/v1/namespaces/a/pods/p/exec", NamespaceNeed::Namespace("a")),
        ("DELETE", "/api/v1/namespaces/a/pods", NamespaceNeed::Namespace("a")),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", NamespaceNeed::Nothing),
        ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", NamespaceNeed::Cluster),
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", NamespaceNeed::Cluster),
        ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", NamespaceNeed::Cluster),
        ("POST", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", NamespaceNeed::Cluster),
        ("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", NamespaceNeed::Cluster),
    ] {
        let method: Method = method.parse().unwrap();
        assert_eq!(need(&method, &request_info(&method, &uri.parse().unwrap())), wanted, "{method} {uri}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rate_allows_a_burst_and_then_so_many_a_second() {
    let rate = Rate::new(2, 3);
    let taken = || std::iter::from_fn(|| rate.take().then_some(())).count();
    assert_eq!(taken(), 3);
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    assert_eq!(taken(), 2);
    tokio::time::advance(std::time::Duration::from_secs(60)).await;
    assert_eq!(taken(), 3);
}

#[test]
fn at_most_1000_tenants_have_a_label() {
    let registry = crate::metrics::Registry::new();
    let metrics = TenantMetrics::register(&registry).unwrap();
    for index in 0..1_100 {
        metrics.answered(&format!("t{index}"), 200);
    }
    let families = registry.gather();
    let of_requests = families.iter().find(|family| family.name().ends_with("tenant_requests_total")).unwrap();
    assert_eq!(of_requests.get_metric().len(), 1_001);
}

#[test]
fn the_published_schema_is_that_of_the_program() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/src/tenant.schema.json");
    let published = std::fs::read_to_string(&path).unwrap_or_default();
    let schema = profile::schema();
    assert_eq!(
        published,
        schema,
        "write the output of `kube-admission-proxy print tenant-schema` to {}",
        path.display()
    );
}
