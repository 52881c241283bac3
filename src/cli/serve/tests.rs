//! The arguments of `serve`: their defaults, their forms, and the errors of wrong ones.

use super::super::arguments::{Arguments, Command};
use super::super::upstream::KUBECONFIG;
use super::*;
use clap::Parser;

fn parse(arguments: &[&str]) -> Result<Config, String> {
    let line = ["kube-admission-proxy", "serve"].iter().chain(arguments);
    match Arguments::try_parse_from(line).map_err(|error| error.to_string())?.command {
        Command::Serve(flags) => config(&flags, None).map_err(|error| error.to_string()),
        _ => Err("not serve".to_owned()),
    }
}

fn names(config: &Config) -> Vec<&'static str> {
    config.admission.plugins.iter().map(|spec| spec.name).collect()
}

#[test]
fn the_emulated_release_decides_about_gates_then_plugins() {
    let has = |flags: &[&str], name: &str| names(&parse(flags).unwrap()).contains(&name);
    for (flag, names) in [
        ("--emulated-version=1.34", [false, false, false]),
        ("--emulated-version=1.35", [true, false, false]),
        ("--emulated-version=1.36", [true, true, true]),
        ("--emulated-version=1.37", [true, true, false]),
    ] {
        let found =
            ["NodeDeclaredFeatureValidator", "PodResizeValidator", "JobValidation"].map(|name| has(&[flag], name));
        assert_eq!(found, names, "{flag}");
    }
    assert!(has(&[], "JobValidation"), "1.36 is the default");
    let newer = "--emulated-version=1.37";
    let (enable, disable) = ("--enable-admission-plugins=JobValidation", "--disable-admission-plugins=JobValidation");
    for (flags, why) in [
        (&[newer, enable][..], r#"enable-admission-plugins plugin "JobValidation" is unknown"#),
        (&[newer, disable], r#"disable-admission-plugins plugin "JobValidation" is unknown"#),
        (
            &[newer, enable, "--feature-gates=WorkloadAwarePreemption=true"],
            "unrecognized feature gate: WorkloadAwarePreemption",
        ),
        (&["--emulated-version=1.33", enable], "emulation version 1.33 is not between [1.34, 1.37.0]"),
        (&["--emulated-version=upstream"], "--emulated-version=upstream: needs --upstream-kubeconfig"),
        (
            &["--min-compatibility-version=1.37"],
            "--min-compatibility-version=1.37: minCompatibilityVersion version 1.37",
        ),
    ] {
        let error = parse(flags).unwrap_err();
        assert!(error.contains(why), "{flags:?}: {error}");
    }
    let Command::Serve(flags) =
        Arguments::try_parse_from(["kube-admission-proxy", "serve", "--emulated-version=upstream"]).unwrap().command
    else {
        panic!("not serve");
    };
    let config = config(&flags, Some(EmulatedRelease::new(37))).unwrap();
    assert!(config.emulates_upstream && config.admission.feature_gates.since(37));
}

#[test]
fn a_front_end_needs_an_api_server_a_certificate_and_callers() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let of = |flag: &str| format!("--{flag}={file}");
    let address = "--webhook-bind-address=127.0.0.1:9443";
    let [upstream, certificate, key] =
        ["upstream-kubeconfig", "webhook-tls-cert-file", "webhook-tls-private-key-file"].map(of);
    let complete = [address, &upstream, &certificate, &key, "--webhook-anonymous-auth"];
    let with = |more: &[&str]| parse(&[&complete, more].concat());
    let both = with(&["--enable-admission-plugins=AlwaysPullImages", "--webhook-admission-plugins=AlwaysPullImages"]);
    let both = both.unwrap();
    let front_end = both.front_end.as_ref().unwrap();
    assert_eq!((&*front_end.plugins, front_end.is_alone), (&["AlwaysPullImages"][..], false));
    assert!(names(&both).contains(&"MutatingAdmissionWebhook"));
    let alone = with(&["--webhook-only", "--webhook-admission-plugins=AlwaysPullImages,PodNodeSelector"]).unwrap();
    assert_eq!(names(&alone), ["AlwaysPullImages", "PodNodeSelector"]);
    let all = with(&["--webhook-only"]).unwrap();
    assert!(names(&all).contains(&"LimitRanger") && !names(&all).contains(&"MutatingAdmissionWebhook"));
    let secret =
        [address, &upstream, "--tls-secret=proxy/tls", "--webhook-anonymous-auth", "--webhook-configurations=proxy"];
    let front_end = parse(&secret).unwrap().front_end.unwrap();
    assert_eq!((front_end.certificate, front_end.configurations.as_deref()), (None, Some("proxy")));
    let authority = of("webhook-client-ca-file");
    for (arguments, why) in [
        (&["--webhook-only"][..], "the other flags of the webhook front end have no effect without"),
        (
            &[
                address,
                &upstream,
                &certificate,
                &key,
                "--webhook-anonymous-auth",
                "--webhook-only",
                "--audit-log-path=-",
            ],
            "--audit-log-path=-: has no effect with --webhook-only",
        ),
        (&[address, &upstream, "--webhook-configurations=proxy"], "--tls-secret"),
        (&[address], "needs --upstream-kubeconfig"),
        (&[address, &upstream], "needs --webhook-tls-cert-file, --tls-cert-file or --tls-secret"),
        (&[address, &upstream, &certificate], "needs --webhook-tls-private-key-file"),
        (&[address, &upstream, &certificate, &key], "needs --webhook-client-ca-file, --webhook-token-auth-file or"),
        (&[address, &upstream, &certificate, &key, &authority], "needs --webhook-allowed-names"),
        (
            &[address, &upstream, &certificate, &key, "--upstream-identity=passthrough"],
            "does not work with --upstream-identity=passthrough",
        ),
    ] {
        let error = parse(arguments).unwrap_err();
        assert!(error.contains(why), "{error} is not {why}");
    }
    for (argument, why) in [
        ("--webhook-admission-plugins=AlwaysPullImages", "is not enabled"),
        ("--webhook-admission-plugins=ValidatingAdmissionWebhook", "the API server calls webhooks itself"),
        ("--enable-admission-plugins=NamespaceAutoProvision", "cannot run in the front end"),
    ] {
        let error = with(&[argument]).unwrap_err();
        assert!(error.contains(why), "{error} is not {why}");
    }
}

#[test]
fn the_defaults_are_those_of_kube_apiserver() {
    let config = parse(&[]).unwrap();
    assert_eq!(config.serving.addresses, ["127.0.0.1:6443".parse().unwrap()]);
    let upstream = format!("--upstream-kubeconfig={}", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    assert_eq!(parse(&[&upstream]).unwrap().serving.addresses, ["0.0.0.0:6443".parse().unwrap()]);
    assert_eq!(*config.limits, Limits::default());
    assert_eq!(config.authorization.mode, AuthorizationMode::AlwaysAllow);
    assert!(!config.authentication.anonymous);
    assert!(
        matches!(config.upstream, Upstream::Embedded(Embedded { kubeconfig: Some(path), .. }) if path == Path::new(KUBECONFIG))
    );
}

#[test]
fn flags_are_written_as_kube_apiserver_takes_them() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let config = parse(&[
        "--enable-admission-plugins=AlwaysDeny,AlwaysPullImages",
        "--enable-admission-plugins",
        "NamespaceExists",
        "--disable-admission-plugins=",
        "--anonymous-auth",
        "--bind-address=10.0.0.1,::1",
        "--bind-address=127.0.0.1",
        "--secure-port=1",
        "--secure-port",
        "0",
        "--request-timeout=1m30s",
        "--requestheader-username-headers=X-A,X-B",
        "--requestheader-username-headers=X-C",
        "--requestheader-client-ca-file",
        path,
        "--upstream-kubeconfig",
        path,
        "-v=4",
    ])
    .unwrap();
    for name in ["AlwaysDeny", "AlwaysPullImages", "NamespaceExists", "NamespaceLifecycle"] {
        assert!(names(&config).contains(&name), "{name}");
    }
    assert!(config.authentication.anonymous);
    assert_eq!(
        config.serving.addresses,
        ["10.0.0.1:0", "[::1]:0", "127.0.0.1:0"].map(|address| address.parse().unwrap())
    );
    assert_eq!(config.limits.request_timeout, Duration::from_secs(90));
    assert_eq!(config.authentication.request_header.unwrap().username_headers, ["X-A", "X-B", "X-C"]);
    assert_eq!(config.authorization.mode, AuthorizationMode::Webhook);
    assert!(!config.admission.routes_to_endpoints);
    assert!(parse(&["--enable-aggregator-routing"]).unwrap().admission.routes_to_endpoints);
    let limits =
        parse(&["--webhook-circuit-breaker-failures=3", "--webhook-circuit-breaker-window=1m"]).unwrap().limits;
    assert_eq!((limits.webhook_breaker_failures, limits.webhook_breaker_window), (3, Duration::from_secs(60)));
    assert_eq!(limits.webhook_breaker_probe_interval, Duration::from_secs(5));
    assert!(!parse(&["--anonymous-auth=false"]).unwrap().authentication.anonymous);
}

#[test]
fn an_argument_error_is_one_line_that_names_flag_and_value() {
    let missing = "/not/there: No such file or directory (os error 2)";
    let hint = r#"("kube-admission-proxy plugins" lists all)"#;
    for (arguments, line) in [
        (&["--enable-admission-plugins=X"][..], format!("enable-admission-plugins plugin \"X\" is unknown {hint}")),
        (
            &["--enable-admission-plugins=AlwaysDeny", "--disable-admission-plugins=AlwaysDeny"],
            "[AlwaysDeny] in enable-admission-plugins and disable-admission-plugins overlapped".to_owned(),
        ),
        (&["--tls-cert-file=/not/there"], format!("--tls-cert-file={missing}")),
        (&["--client-ca-file=/not/there"], format!("--client-ca-file={missing}")),
        (&["--client-ca-file=/"], "--client-ca-file=/: is a directory".to_owned()),
        (&["--upstream-kubeconfig=/not/there"], format!("--upstream-kubeconfig={missing}")),
        (&["--audit-policy-file=/not/there", "--audit-log-path=-"], format!("--audit-policy-file={missing}")),
        (
            &["--audit-log-path=/proc/not/there", "--audit-policy-file=Cargo.toml"],
            "--audit-log-path=/proc/not/there: No such file or directory (os error 2)".to_owned(),
        ),
        (
            &["--audit-log-path=-"],
            "--audit-log-path=-: needs --audit-policy-file: without a policy nothing is written".to_owned(),
        ),
        (
            &["--audit-policy-file=Cargo.toml"],
            "--audit-policy-file=Cargo.toml: needs --audit-log-path or --audit-webhook-config-file: without a backend nothing is \
             written"
                .to_owned(),
        ),
        (
            &["--admission-control-config-file=/not/there"],
            "--admission-control-config-file=/not/there: unable to read admission control configuration from \
             \"/not/there\" [No such file or directory (os error 2)]"
                .to_owned(),
        ),
        (
            &["--tls-private-key-file=Cargo.toml"],
            "--tls-private-key-file=Cargo.toml: needs --tls-cert-file".to_owned(),
        ),
        (&["--tls-cert-file=Cargo.toml"], "--tls-cert-file=Cargo.toml: needs --tls-private-key-file".to_owned()),
        (
            &["--authorization-mode=ABAC"],
            "--authorization-mode=ABAC: must be AlwaysAllow, RBAC or Webhook".to_owned(),
        ),
        (
            &["--authorization-mode=AlwaysAllow,Webhook"],
            "--authorization-mode=AlwaysAllow,Webhook: must be one of AlwaysAllow, RBAC and Webhook".to_owned(),
        ),
        (
            &["--feature-gates=AllAlpha=true,B=false"],
            "--feature-gates=AllAlpha=true,B=false: unrecognized feature gate: B".to_owned(),
        ),
        (&["--request-timeout=0"], "--request-timeout=0s: must be more than 0".to_owned()),
        (
            &["--webhook-circuit-breaker-window=0s"],
            "--webhook-circuit-breaker-window=0s: must be more than 0".to_owned(),
        ),
        (
            &["--requestheader-username-headers=X-Remote-User"],
            "the --requestheader-… flags have no effect without --requestheader-client-ca-file".to_owned(),
        ),
        (
            &["--requestheader-group-headers=X Y", "--requestheader-client-ca-file=Cargo.toml"],
            "--requestheader-group-headers=X Y: is no name of a header".to_owned(),
        ),
        (
            &["--upstream-kubeconfig=Cargo.toml", "--write-kubeconfig=x"],
            "--write-kubeconfig=x: has no effect with --upstream-kubeconfig".to_owned(),
        ),
        (
            &["--upstream-kubeconfig=Cargo.toml", "--data-dir=x"],
            "--data-dir has no effect with --upstream-kubeconfig".to_owned(),
        ),
        (
            &["--upstream-kubeconfig=Cargo.toml", "--enable-admission-plugins=Initializers"],
            "--enable-admission-plugins=Initializers: does not work with --upstream-kubeconfig: an API server since Kubernetes 1.14 \
             lacks metadata.initializers, so that it shows a new object before the object is initialized; use \
             MutatingAdmissionWebhook instead"
                .to_owned(),
        ),
        (&["--admitted-mark=a/b"], "--admitted-mark=a/b: has no effect without --upstream-kubeconfig".to_owned()),
        (
            &["--upstream-kubeconfig=Cargo.toml", "--admitted-mark=main"],
            "--admitted-mark=main: must be NAMESPACE/NAME".to_owned(),
        ),
        (
            &["--upstream-kubeconfig=Cargo.toml", "--upstream-identity=passthrough", "--admitted-mark=a/b"],
            "--admitted-mark=a/b: does not work with --upstream-identity=passthrough, which sends the credentials of the client \
             unchanged"
                .to_owned(),
        ),
        (
            &["--upstream-kubeconfig=Cargo.toml", "--upstream-identity=requestheader", "--upstream-impersonator=a/b"],
            "--upstream-impersonator=a/b: needs --upstream-identity=impersonate".to_owned(),
        ),
        (
            &["--upstream-kubeconfig=Cargo.toml", "--upstream-own-user=proxy,system:masters"],
            "--upstream-own-user=proxy,system:masters: needs --upstream-identity=requestheader".to_owned(),
        ),
        (
            &["--upstream-kubeconfig=Cargo.toml", "--upstream-group-prefix=sys"],
            "--upstream-group-prefix=sys: must not be the beginning of Kubernetes' own groups (system:)".to_owned(),
        ),
        (
            &["--upstream-kubeconfig=Cargo.toml", "--upstream-group-prefix=ä:"],
            "--upstream-group-prefix=ä:: must have visible ASCII characters only".to_owned(),
        ),
        (
            &["--client-ca-file=Cargo.toml", "--write-kubeconfig=x"],
            "--write-kubeconfig=x: has no effect with --client-ca-file".to_owned(),
        ),
    ] {
        assert_eq!(parse(arguments).unwrap_err(), line);
    }
}

#[test]
fn initializers_work_in_front_of_the_embedded_api_server() {
    assert!(parse(&["--enable-admission-plugins=Initializers"]).unwrap().admission.has_initializers());
    assert!(!parse(&["--upstream-kubeconfig=Cargo.toml"]).unwrap().admission.has_initializers());
}

#[test]
fn the_example_configuration_is_read() {
    let file = concat!("--admission-control-config-file=", env!("CARGO_MANIFEST_DIR"), "/config/admission.yaml");
    let config = parse(&[file]).unwrap();
    for plugin in ["MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"] {
        let configuration = config.admission.configuration(plugin).unwrap();
        assert_eq!(configuration.value["kind"], "WebhookAdmissionConfiguration", "{plugin}");
        assert_eq!(configuration.value["apiVersion"], "apiserver.config.k8s.io/v1", "{plugin}");
        let kubeconfig = configuration.value["kubeConfigFile"].as_str().unwrap();
        assert_eq!(kubeconfig, "/etc/kube-admission-proxy/webhook-kubeconfig.yaml");
    }
    kube::config::Kubeconfig::read_from(concat!(env!("CARGO_MANIFEST_DIR"), "/config/webhook-kubeconfig.yaml"))
        .unwrap();
}

#[test]
fn the_other_examples_are_read_too() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/config/admission-manifests.yaml");
    let config = parse(&[&format!("--admission-control-config-file={file}")]).unwrap();
    for (plugin, folder) in [("MutatingAdmissionWebhook", "mutating"), ("ValidatingAdmissionWebhook", "validating")] {
        let given = &config.admission.configuration(plugin).unwrap().value["staticManifestsDir"];
        assert_eq!(given, &format!("/etc/kube-admission-proxy/{folder}"));
    }
    crate::authn::StaticTokens::parse(include_bytes!("../../../config/tokens.csv")).unwrap();
    let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/config/audit-policy.yaml");
    crate::audit::Policy::from_file(Path::new(policy)).unwrap();
}

/// A value for each flag that is not its default; values that no rule gives are by the name of the flag.
fn sample(flag: &clap::Arg) -> Vec<String> {
    let name = flag.get_long().unwrap();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let with = |value: &str| vec![format!("--{name}={value}")];
    match name {
        "enable-admission-plugins" | "webhook-admission-plugins" => with("AlwaysPullImages"),
        "disable-admission-plugins" => with("PodSecurity"),
        "admission-control" => with("AlwaysAdmit"),
        "admission-control-config-file" => with(concat!(env!("CARGO_MANIFEST_DIR"), "/config/admission.yaml")),
        "feature-gates" => with("AllAlpha=true"),
        "emulated-version" | "min-compatibility-version" => with("1.34"),
        "shadow-webhooks" | "shadow-policies" => with("a"),
        "validation-view" => with("submitted"),
        "field-ownership" => with("writer"),
        "authorization-mode" => vec!["--authorization-mode=AlwaysAllow".into(), "--authorization-mode=RBAC".into()],
        "bind-address" | "advertise-address" => with("192.0.2.1"),
        "requestheader-username-headers" | "requestheader-uid-headers" | "requestheader-group-headers" => with("X-A"),
        "requestheader-extra-headers-prefix" => with("X-B-"),
        "requestheader-allowed-names" | "webhook-allowed-names" | "webhook-configurations" => with("a"),
        "tls-sni-cert-key" => with(&format!("{file},{file}:a.example")),
        "tls-min-version" => with("VersionTLS13"),
        "tls-cipher-suites" => with("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
        "tls-secret" | "admitted-mark" | "upstream-impersonator" => with("a/b"),
        "tls-names" => with("a.example"),
        "health-bind-address" | "webhook-bind-address" => with("127.0.0.1:0"),
        "memory-limit" => with("1Gi"),
        "upstream-identity" => {
            vec!["--upstream-identity=passthrough".into(), "--upstream-identity=requestheader".into()]
        }
        "upstream-own-user" => with("a,b"),
        "upstream-group-prefix" => with("a:"),
        "upstream-calls-webhooks" => with("yes"),
        "controllers" => with("-namespace"),
        "service-account-issuer" | "service-account-jwks-uri" => with("https://a.example"),
        "service-cluster-ip-range" => with("10.9.0.0/24"),
        "runtime-config" => with("api/all=true"),
        "api-audiences" => with("a"),
        "audit-annotations" => with("kube-apiserver"),
        "audit-log-path" => with("-"),
        "audit-log-mode" | "audit-webhook-mode" => with("blocking"),
        "audit-log-format" => with("legacy"),
        "audit-log-version" | "audit-webhook-version" => with("v1"),
        "write-kubeconfig" => with("other.kubeconfig"),
        _ => match flag.get_value_names().and_then(|names| names.first()).map(|name| name.as_str()).unwrap_or_default()
        {
            "FILE" => with(file),
            "DIR" | "FOLDER" => with(folder),
            "DURATION" => with("2h1m"),
            "BOOL" => vec![format!("--{name}=true"), format!("--{name}=false")],
            "SECONDS" | "N" | "PORT" | "BYTES" | "MEGABYTES" | "DAYS" | "NUMBER" => with("7"),
            other => panic!("--{name} has values of the kind {other}, of which the test knows none"),
        },
    }
}

#[test]
fn no_flag_is_accepted_without_effect() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let upstream = format!("--upstream-kubeconfig={file}");
    let front_end = [
        &*upstream,
        "--webhook-bind-address=127.0.0.1:9443",
        &format!("--webhook-tls-cert-file={file}"),
        &format!("--webhook-tls-private-key-file={file}"),
        "--webhook-anonymous-auth",
        "--webhook-only",
    ];
    let tenants = format!("--tenants-dir={folder}");
    let policy = format!("--audit-policy-file={file}");
    let webhook = format!("--audit-webhook-config-file={file}");
    let audited = [
        &*policy,
        "--audit-log-path=-",
        "--audit-log-mode=batch",
        "--audit-log-batch-throttle-enable",
        "--audit-log-batch-throttle-qps=1",
        "--audit-log-batch-throttle-burst=1",
        "--audit-log-truncate-enabled",
        &*webhook,
        "--audit-webhook-truncate-enabled",
    ];
    let contexts: [(&str, Vec<&str>); 7] = [
        ("embedded", vec![]),
        ("upstream", vec![&upstream]),
        ("passthrough", vec![&upstream, "--upstream-identity=passthrough"]),
        ("requestheader", vec![&upstream, "--upstream-identity=requestheader"]),
        ("webhook-only", front_end.to_vec()),
        ("tenants", vec![&upstream, &tenants]),
        ("audited", audited.to_vec()),
    ];
    let command = <Arguments as clap::CommandFactory>::command();
    let serve = command.find_subcommand("serve").unwrap();
    let flags = serve.get_arguments().filter(|flag| {
        !matches!(flag.get_long(), None | Some("help" | "logging-format" | "memory-limit" | "v" | "vmodule"))
    });
    let mut silent = Vec::new();
    for flag in flags {
        let name = flag.get_long().unwrap();
        for (context, base) in &contexts {
            // As in kube-apiserver, the flags of an audit backend need the backend, and those of batches its mode.
            let is_backend = ["audit-log-path", "audit-webhook-config-file"].contains(&name);
            let needs_backend = name.starts_with("audit-") && name != "audit-policy-file" && !is_backend;
            if needs_backend != (*context == "audited") {
                continue;
            }
            // A flag of the context itself has its effect there.
            if !needs_backend && base.iter().any(|given| given.starts_with(&format!("--{name}"))) {
                continue;
            }
            let without = format!("{:?}", parse(base).unwrap());
            let outcomes: Vec<bool> = sample(flag)
                .iter()
                .map(|given| match parse(&[base, &[&**given][..]].concat()) {
                    Ok(config) => format!("{config:?}") != without,
                    Err(why) => {
                        let group = name.split('-').next().unwrap();
                        let is_named = why.contains(&format!("--{name}"))
                            || why.contains("admission-control")
                            || (name.starts_with("audit-") && why.contains("invalid "))
                            || why.contains("the other flags of the webhook front end")
                            || why.contains(&format!("the --{group}-"));
                        assert!(is_named, "{context} {given}: {why}");
                        true
                    }
                })
                .collect();
            if !outcomes.contains(&true) {
                silent.push(format!("{context} --{name}"));
            }
        }
    }
    assert!(silent.is_empty(), "accepted without effect or refusal: {silent:#?}");
}
