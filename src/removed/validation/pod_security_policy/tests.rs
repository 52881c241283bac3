use crate::removed::POD_SECURITY_POLICIES;
use crate::removed::validation::tests::{self, SUBDOMAIN};
use serde_json::{Value, json};

/// A valid policy with these fields of the spec.
fn policy(fields: Value) -> Value {
    let any = json!({"rule": "RunAsAny"});
    let mut spec = json!({"allowPrivilegeEscalation": true, "fsGroup": any, "runAsUser": any, "seLinux": any,
        "supplementalGroups": any});
    spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"metadata": {"name": "p"}, "spec": spec})
}

#[track_caller]
fn check(fields: Value, expected: &[&str]) {
    tests::check(&POD_SECURITY_POLICIES, policy(fields), expected);
}

#[track_caller]
fn check_annotation(key: &str, value: &str, expected: &[&str]) {
    let expected: Vec<_> =
        expected.iter().map(|why| format!("metadata.annotations[{key}]: Invalid value: {why}")).collect();
    let expected: Vec<_> = expected.iter().map(String::as_str).collect();
    let mut policy = policy(json!({}));
    policy["metadata"]["annotations"] = json!({ key: value });
    tests::check(&POD_SECURITY_POLICIES, policy, &expected);
}

#[test]
fn a_policy_has_four_strategies() {
    check(json!({}), &[]);
    tests::check(
        &POD_SECURITY_POLICIES,
        json!({"metadata": {"name": "p"}}),
        &[
            r#"spec.runAsUser.rule: Unsupported value: "": supported values: "MustRunAs", "MustRunAsNonRoot", "RunAsAny""#,
            r#"spec.seLinux.rule: Unsupported value: "": supported values: "MustRunAs", "RunAsAny""#,
            r#"spec.supplementalGroups.rule: Unsupported value: "": supported values: "MayRunAs", "MustRunAs", "RunAsAny""#,
            r#"spec.fsGroup.rule: Unsupported value: "": supported values: "MayRunAs", "MustRunAs", "RunAsAny""#,
        ],
    );
    let why = r#"spec.seLinux.rule: Unsupported value: "MayRunAs": supported values: "MustRunAs", "RunAsAny""#;
    check(json!({"seLinux": {"rule": "MayRunAs"}}), &[why]);
}

#[test]
fn ranges_are_not_negative_and_in_order() {
    for (min, max) in [(0, 0), (1, 2), (5, 5)] {
        check(json!({"runAsUser": {"rule": "MustRunAs", "ranges": [{"min": min, "max": max}]}}), &[]);
    }
    check(json!({"runAsUser": {"rule": "MustRunAs"}}), &[]);
    for (field, rule) in [("runAsUser", "RunAsAny"), ("supplementalGroups", "MayRunAs"), ("fsGroup", "MustRunAs")] {
        let ranges = json!([{"min": 3, "max": 2}, {"min": -1, "max": -2}, {"min": 1}]);
        check(
            json!({ field: {"rule": rule, "ranges": ranges} }),
            &[
                &format!("spec.{field}.ranges[0].min: Invalid value: 3: min cannot be greater than max"),
                &format!("spec.{field}.ranges[1].min: Invalid value: -1: min cannot be negative"),
                &format!("spec.{field}.ranges[1].max: Invalid value: -2: max cannot be negative"),
                &format!("spec.{field}.ranges[1].min: Invalid value: -1: min cannot be greater than max"),
                &format!("spec.{field}.ranges[2].min: Invalid value: 1: min cannot be greater than max"),
            ],
        );
    }
}

#[test]
fn the_group_strategy_needs_ranges_unless_it_allows_any() {
    let nil = "spec.runAsGroup.ranges: Invalid value: []policy.IDRange(nil): must provide at least one range";
    let empty = "spec.runAsGroup.ranges: Invalid value: []policy.IDRange{}: must provide at least one range";
    check(json!({"runAsGroup": {"rule": "RunAsAny"}}), &[]);
    check(json!({"runAsGroup": {"rule": "MayRunAs", "ranges": [{"min": 1, "max": 2}]}}), &[]);
    check(json!({"runAsGroup": {"rule": "MustRunAs"}}), &[nil]);
    check(json!({"runAsGroup": {"rule": "MayRunAs", "ranges": []}}), &[empty]);
    check(
        json!({"runAsGroup": {"rule": "RunAsAny", "ranges": [{"min": 1, "max": 2}, {"min": -3, "max": 4}]}}),
        &[
            "spec.runAsGroup.ranges: Invalid value: []policy.IDRange{policy.IDRange{Min:1, Max:2}, policy.IDRange{Min:-3, \
           Max:4}}: Ranges must be empty",
        ],
    );
    check(
        json!({"runAsGroup": {"rule": "MustRunAs", "ranges": [{"min": -1, "max": 2}]}}),
        &["spec.runAsGroup.ranges[0].min: Invalid value: -1: min cannot be negative"],
    );
    let why = r#"spec.runAsGroup.rule: Unsupported value: "": supported values: "MustRunAs", "RunAsAny", "MayRunAs""#;
    check(json!({"runAsGroup": {}}), &[why]);
}

#[test]
fn volumes_have_known_types() {
    check(json!({"volumes": super::VOLUMES}), &[]);
    let supported: Vec<_> = super::VOLUMES.iter().map(|volume| format!("\"{volume}\"")).collect();
    let why = format!("spec.volumes: Unsupported value: \"cephfs\": supported values: {}", supported.join(", "));
    check(json!({"volumes": ["secret", "cephfs"]}), &[&why]);
    assert!(super::VOLUMES.is_sorted());
}

#[test]
fn capabilities_are_not_both_allowed_and_dropped() {
    check(
        json!({"requiredDropCapabilities": ["A"], "defaultAddCapabilities": ["B"], "allowedCapabilities": ["C"]}),
        &[],
    );
    check(json!({"requiredDropCapabilities": [], "allowedCapabilities": ["*"]}), &[]);
    check(
        json!({"requiredDropCapabilities": ["A", "B"], "defaultAddCapabilities": ["B"], "allowedCapabilities": ["A", "*"]}),
        &[
            "requiredDropCapabilities: Invalid value: []core.Capability{\"A\", \"B\"}: must be empty when all capabilities are \
             allowed by a wildcard",
            "defaultAddCapabilities: Invalid value: \"B\": capability is listed in defaultAddCapabilities and \
             requiredDropCapabilities",
            "allowedCapabilities: Invalid value: \"A\": capability is listed in allowedCapabilities and requiredDropCapabilities",
        ],
    );
}

#[test]
fn escalation_is_a_default_only_if_it_is_allowed() {
    for (default, allowed) in [(true, true), (false, false), (false, true)] {
        check(json!({"defaultAllowPrivilegeEscalation": default, "allowPrivilegeEscalation": allowed}), &[]);
    }
    let why = "spec.defaultAllowPrivilegeEscalation: Invalid value: true: Cannot set DefaultAllowPrivilegeEscalation to true \
        without also setting AllowPrivilegeEscalation to true";
    check(json!({"defaultAllowPrivilegeEscalation": true, "allowPrivilegeEscalation": false}), &[why]);
}

#[test]
fn proc_mounts_have_known_types() {
    check(json!({"allowedProcMountTypes": ["Default", "Unmasked"]}), &[]);
    let why = r#"spec.allowedProcMountTypes[1]: Unsupported value: "x": supported values: "Default", "Unmasked""#;
    check(json!({"allowedProcMountTypes": ["Default", "x"]}), &[why]);
}

#[test]
fn host_paths_are_validated_up_to_a_missing_one() {
    let back = "spec.allowedHostPaths[0]: Invalid value: \"/a/../..\": must not contain '..'";
    let required = "spec.allowedHostPaths[1]: Required value: is required";
    check(json!({"allowedHostPaths": [{"pathPrefix": "/a"}, {"pathPrefix": "a..b"}]}), &[]);
    check(json!({"allowedHostPaths": [{"pathPrefix": "/a/../.."}, {}, {}, {"pathPrefix": ".."}]}), &[back, required]);
}

#[test]
fn drivers_have_names() {
    check(json!({"allowedFlexVolumes": [{"driver": "a/b"}], "allowedCSIDrivers": [{"name": "B.lab"}]}), &[]);
    let long = "a".repeat(64);
    let empty = format!("spec.allowedCSIDrivers.allowedCSIDriver[0].name: Invalid value: \"\": {SUBDOMAIN}");
    let form = format!("spec.allowedCSIDrivers.allowedCSIDriver[2].name: Invalid value: \"A_B\": {SUBDOMAIN}");
    check(
        json!({"allowedFlexVolumes": [{}], "allowedCSIDrivers": [{}, {"name": long}, {"name": "A_B"}]}),
        &[
            "spec.allowedFlexVolumes.allowedFlexVolumes[0].driver: Required value: must specify a driver",
            "spec.allowedCSIDrivers.allowedCSIDriver[0].name: Required value",
            &empty,
            "spec.allowedCSIDrivers.allowedCSIDriver[1].name: Too long: must have at most 63 bytes",
            &form,
        ],
    );
}

#[test]
fn sysctls_are_patterns() {
    check(json!({"allowedUnsafeSysctls": ["kernel.*"], "forbiddenSysctls": ["net.*"]}), &[]);
    let why = "spec.allowedUnsafeSysctls[0]: Invalid value: \"a\": sysctl overlaps with a";
    check(json!({"allowedUnsafeSysctls": ["a"], "forbiddenSysctls": ["a"]}), &[why]);
}

#[test]
fn runtime_classes_are_names_and_allow_the_default() {
    check(json!({"runtimeClass": {"allowedRuntimeClassNames": ["*"], "defaultRuntimeClassName": "a"}}), &[]);
    check(json!({"runtimeClass": {"allowedRuntimeClassNames": ["a", "b"], "defaultRuntimeClassName": "a"}}), &[]);
    check(json!({"runtimeClass": {}}), &[]);
    let form = format!("spec.runtimeClass.allowedRuntimeClassNames[0]: Invalid value: \"A\": {SUBDOMAIN}");
    check(
        json!({"runtimeClass": {"allowedRuntimeClassNames": ["A", "b", "b"], "defaultRuntimeClassName": "c"}}),
        &[
            &form,
            "spec.runtimeClass.allowedRuntimeClassNames[2]: Duplicate value: \"b\"",
            "spec.runtimeClass.allowedRuntimeClassNames: Required value: default \"c\" must be allowed",
        ],
    );
    let empty = format!("spec.runtimeClass.defaultRuntimeClassName: Invalid value: \"\": {SUBDOMAIN}");
    check(
        json!({"runtimeClass": {"allowedRuntimeClassNames": ["*", "*"], "defaultRuntimeClassName": ""}}),
        &[
            "spec.runtimeClass.allowedRuntimeClassNames[1]: Duplicate value: \"*\"",
            &empty,
            "spec.runtimeClass.allowedRuntimeClassNames: Invalid value: []string{\"*\", \"*\"}: if '*' is present, must not \
             specify other RuntimeClass names",
        ],
    );
}

#[test]
fn annotations_name_app_armor_profiles() {
    let key = "apparmor.security.beta.kubernetes.io/defaultProfileName";
    for profile in ["", "runtime/default", "unconfined", "localhost/", "localhost/../x"] {
        check_annotation(key, profile, &[]);
    }
    check_annotation(key, "x", &[r#""x": invalid AppArmor profile name: "x""#]);
    check_annotation(key, "*", &[r#""*": invalid AppArmor profile name: "*""#]);
    let key = "apparmor.security.beta.kubernetes.io/allowedProfileNames";
    check_annotation(key, "runtime/default,,localhost/y", &[]);
    check_annotation(
        key,
        "x,unconfined, y",
        &[
            r#""x,unconfined, y": invalid AppArmor profile name: "x""#,
            r#""x,unconfined, y": invalid AppArmor profile name: " y""#,
        ],
    );
}

#[test]
fn annotations_name_seccomp_profiles() {
    let key = "seccomp.security.alpha.kubernetes.io/defaultProfileName";
    for profile in ["", "runtime/default", "docker/default", "unconfined", "localhost/", "localhost/a/b"] {
        check_annotation(key, profile, &[]);
    }
    check_annotation(key, "*", &[r#""*": must be a valid seccomp profile"#]);
    check_annotation(key, "localhost//a", &[r#""/a": must be a relative path"#]);
    check_annotation(key, "localhost/../a", &[r#""../a": must not contain '..'"#]);
    let key = "seccomp.security.alpha.kubernetes.io/allowedProfileNames";
    check_annotation(key, "*,docker/default,localhost/a", &[]);
    check_annotation(
        key,
        "x,*,",
        &[r#""x": must be a valid seccomp profile"#, r#""": must be a valid seccomp profile"#],
    );
}
