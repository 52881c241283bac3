use super::formats::{Form, written};
use super::report::{Finding, Refusal, Report};
use super::resources::Definitions;
use super::{Files, check, manifests, policies};
use crate::config::EmulatedRelease;
use crate::manifests::validation;
use crate::object::Object;
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

const VECTORS: &str = include_str!("type-checking.jsonl");

/// The report without admission.
fn checked(files: &[PathBuf], by_rules: &[PathBuf]) -> Report {
    let files = Files { checked: files, by_rules, state: &[] };
    check(files, EmulatedRelease::default(), None).now_or_never().unwrap().unwrap()
}

/// Returns the output for files with these texts, and whether there is an error.
fn report(files: &[&str], objects: &[&str]) -> (String, bool) {
    let folder = tempfile::tempdir().unwrap();
    let write = |prefix: &str, texts: &[&str]| {
        let named = texts.iter().enumerate().map(|(index, text)| {
            let file = folder.path().join(format!("{prefix}{index}.yaml"));
            std::fs::write(&file, text).unwrap();
            file
        });
        named.collect::<Vec<PathBuf>>()
    };
    let report = checked(&write("f", files), &write("o", objects));
    let place = format!("{}/", folder.path().display());
    (report.to_string().replace(&place, ""), report.has_errors())
}

const POLICY: &str = "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: replicas}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments, statefulsets]}
";

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: foos.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: foos, singular: foo, kind: Foo, listKind: FooList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            x-kubernetes-validations:
";

#[test]
fn a_valid_expression_has_a_cost() {
    let policy = format!(
        "{POLICY}  variables:\n  - {{name: labels, expression: object.metadata.labels}}\n  matchConditions:\n  - {{name: c, \
         expression: request.name != ''}}\n  validations:\n  - expression: object.spec.replicas <= 5\n    messageExpression: \
         \"'no ' + object.metadata.name\"\n  auditAnnotations:\n  - {{key: k, valueExpression: \"'a'\"}}\n"
    );
    let (text, has_errors) = report(&[&policy], &[]);
    let expected = "\
f0.yaml: ValidatingAdmissionPolicy \"replicas\"
  spec.matchConditions[0].expression: costs 2
  spec.variables[0].expression: costs 1
  spec.validations[0].expression: costs 4
  spec.validations[0].messageExpression: costs 4 to 314576
  spec.auditAnnotations[0].valueExpression: costs 0
1 object, 0 errors, 0 warnings
";
    assert_eq!((text.as_str(), has_errors), (expected, false));
}

#[test]
fn an_object_without_expressions_is_not_checked() {
    let (text, has_errors) = report(&["apiVersion: v1\nkind: Pod\nmetadata: {name: website}\n"], &[]);
    let expected = "\
f0.yaml: Pod \"website\"
  not checked: the kind has no expressions
1 object, 0 errors, 0 warnings, 1 not checked
";
    assert_eq!((text.as_str(), has_errors), (expected, false));
}

#[test]
fn the_namespace_of_an_object_of_the_cluster_is_left_out() {
    let configuration = "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hooks, namespace: kueue-system}
";
    let (text, has_errors) = report(&[configuration, &POLICY.replace("{name", "{namespace: kueue-system, name")], &[]);
    assert!(!text.contains("metadata.namespace"), "{text}");
    // The policy has no validations, which is two errors.
    assert!(has_errors && text.contains("2 objects, 2 errors,"), "{text}");
}

#[test]
fn a_folder_is_checked_with_the_folders_below_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("sub/empty")).unwrap();
    std::os::unix::fs::symlink(folder.path(), folder.path().join("sub/loop")).unwrap();
    for name in ["b.json", "a.yml", "sub/c.yaml", "notes.txt"] {
        std::fs::write(folder.path().join(name), r#"{"apiVersion": "v1", "kind": "Pod"}"#).unwrap();
    }
    let text = checked(&[folder.path().to_owned()], &[]).to_string();
    let files: Vec<&str> = text.lines().filter_map(|line| line.strip_suffix(": Pod \"\"")).collect();
    let names = ["a.yml", "b.json", "sub/c.yaml"].map(|name| folder.path().join(name).display().to_string());
    assert_eq!(files, names);
}

#[test]
fn an_admission_configuration_names_plugins_that_exist() {
    let file = |plugins: &str| {
        format!("apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins: {plugins}\n")
    };
    let (text, has_errors) = report(&[&file("[{name: PodNodeSelectors}, {name: PodSecurity}]")], &[]);
    assert!(
        text.contains("warning: plugins: plugin \"PodNodeSelectors\" is unknown (similar: \"PodNodeSelector\";"),
        "{text}"
    );
    assert!(!has_errors && text.contains("0 errors, 1 warning"), "{text}");
    let (text, has_errors) = report(&[&file("[{name: PodSecurity, path: not-there}]")], &[]);
    assert!(has_errors && text.contains("error: Couldn't open admission plugin configuration"), "{text}");
}

#[test]
fn an_admission_configuration_names_plugins_of_the_release() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("admission.yaml");
    let text =
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins: [{name: JobValidation}]\n";
    std::fs::write(&file, text).unwrap();
    for (minor, is_unknown) in [(36, false), (37, true)] {
        let files = Files { checked: std::slice::from_ref(&file), ..Files::default() };
        let text = check(files, EmulatedRelease::new(minor), None).now_or_never().unwrap().unwrap().to_string();
        assert_eq!(text.contains("plugin \"JobValidation\" is unknown"), is_unknown, "{text}");
    }
}

#[test]
fn expressions_are_checked_for_the_kinds_that_the_policy_is_for() {
    let policy = format!("{POLICY}  validations:\n  - expression: object.spec.strategy.type == 'Recreate'\n");
    let (text, has_errors) = report(&[&policy], &[]);
    let expected = "  warning: spec.validations[0].expression: apps/v1, Kind=StatefulSet: ERROR: <input>:1:12: undefined field \
                    'strategy'\n     | object.spec.strategy.type == 'Recreate'\n     | ...........^\n1 object, 0 errors, 1 warning\n";
    assert!(text.ends_with(expected) && !has_errors, "{text}");
}

#[test]
fn kinds_are_known_from_definitions_among_the_files() {
    let policy = POLICY.replace("[apps]", "[example.com]").replace("deployments, statefulsets", "foos");
    let policy = format!(
        "{policy}  paramKind: {{apiVersion: example.com/v1, kind: Foo}}\n  validations:\n  - expression: object.spec.a > params.spec.b && object.metadata.labels.x == 'y'\n"
    );
    let definition =
        format!("{DEFINITION}            - {{rule: self.a > 1}}\n            properties: {{a: {{type: integer}}}}\n");
    let (text, _) = report(&[&format!("{policy}---{definition}")], &[]);
    assert!(text.contains("warning: spec.validations[0].expression: example.com/v1, Kind=Foo: ERROR: <input>:1:28: undefined field 'b'\n"), "{text}");
    assert!(text.ends_with("2 objects, 0 errors, 1 warning\n"), "{text}");
}

#[test]
fn an_expression_that_does_not_compile_is_an_error_with_its_field() {
    let policy = format!("{POLICY}  validations:\n  - expression: objects.spec == 1\n  - expression: object.spec\n");
    let hook = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: w}\nwebhooks:\n\
                - {name: a.b.c, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: 'https://x'}, \
                matchConditions: [{name: a, expression: request.name == ''}, {name: b, expression: variables.x}]}\n";
    let (text, has_errors) = report(&[&policy, hook], &[]);
    for line in [
        "  error: spec.validations[0].expression: Invalid value: \"objects.spec == 1\": compilation failed: ERROR: <input>:1:1: \
         undeclared reference to 'objects' (in container '')\n     | objects.spec == 1\n     | ^\n",
        "  error: spec.validations[1].expression: Invalid value: \"object.spec\": must evaluate to bool but got dyn\n",
        "  webhooks[0].matchConditions[0].expression: costs 2\n",
        "  error: webhooks[0].matchConditions[1].expression: Invalid value: \"variables.x\": compilation failed: ERROR: ",
    ] {
        assert!(text.contains(line), "{text}\n{line}");
    }
    assert!(has_errors && !text.contains("validations[1].expression: costs"), "{text}");
}

#[test]
fn rules_that_may_cost_too_much_are_refused_as_by_kube_apiserver() {
    let definition = format!(
        "{DEFINITION}            - {{rule: 'self.names.all(a, self.names.all(b, a == b))'}}\n            - {{rule: oldSelf.names == self.names}}\n            \
         properties: {{names: {{type: array, maxItems: 600, items: {{type: string, maxLength: 10, x-kubernetes-validations: \
         [{{rule: self == oldSelf}}]}}}}}}\n"
    );
    let (text, has_errors) = report(&[&definition], &[]);
    for line in [
        "  spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: costs 3 to 3243603\n",
        "  error: spec.validation.openAPIV3Schema.properties[spec].properties[names].items.x-kubernetes-validations[0].rule: Invalid \
         value: \"self == oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within \
         spec.validation.openAPIV3Schema.properties[spec].properties[names]\n",
    ] {
        assert!(text.contains(line), "{text}\n{line}");
    }
    assert!(has_errors);
    let unbounded = definition.replace(", maxItems: 600", "");
    let (text, _) = report(&[&unbounded], &[]);
    let line = "  error: spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Forbidden: estimated rule \
                cost exceeds budget by factor of more than 100x (try simplifying the rule, or adding maxItems, maxProperties, and \
                maxLength where arrays, maps, and strings are declared)\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn objects_are_checked_by_the_rules_of_their_definition() {
    let definition = format!(
        "{DEFINITION}            - {{rule: self.names == self.others, message: they differ}}\n            properties:\n              names: {{type: \
         array, maxItems: 9, x-kubernetes-list-type: set, items: {{type: string, maxLength: 9}}}}\n              others: {{type: array, \
         maxItems: 9, x-kubernetes-list-type: set, items: {{type: string, maxLength: 9}}}}\n"
    );
    let object = |names: &str| {
        format!(
            "apiVersion: example.com/v1\nkind: Foo\nmetadata: {{name: a}}\nspec: {{names: [a, b], others: [{names}]}}\n"
        )
    };
    let (text, has_errors) = report(&[&definition], &[&object("b, a"), &object("b, c"), "apiVersion: v1\nkind: Pod"]);
    let expected = "o0.yaml: Foo \"a\"\no1.yaml: Foo \"a\"\n  error: spec: Invalid value: they differ\no2.yaml: Pod \"\"\n  error: no \
                    definition of its kind is among the files\n4 objects, 2 errors, 0 warnings\n";
    assert!(text.ends_with(expected) && has_errors, "{text}");
}

#[test]
fn files_that_cannot_be_read_are_errors() {
    let (text, has_errors) = report(&["a: [", "kind: X", "- 1"], &[]);
    assert!(has_errors && text.ends_with("0 objects, 3 errors, 0 warnings\n"), "{text}");
    let (text, has_errors) =
        report(&["apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n", ""], &[]);
    assert_eq!(
        (&*text, has_errors),
        (
            "f0.yaml: Pod \"a\"\n  not checked: the kind has no expressions\n1 object, 0 errors, 0 warnings, 1 not checked\n",
            false
        )
    );
    let (text, _) = report(&[&format!("{POLICY}  validation: []\n")], &[]);
    assert!(text.contains("  error: unknown field \"spec.validation\"\n"), "{text}");
}

/// Compares with the findings of kube-controller-manager 1.36 about the policies in `type-checking.jsonl`: its `TypeChecker` ran
/// with a kube-apiserver that has the definitions in that file. Its names of kinds end in numbers.
#[test]
fn warnings_are_those_of_kube_controller_manager() {
    let lines: Vec<Value> = VECTORS.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("definitions.json");
    let items: Vec<&Value> = lines.iter().filter_map(|line| line.get("definition")).collect();
    std::fs::write(&file, json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()).unwrap();
    let manifests = manifests::read(&file).unwrap();
    let definitions = Definitions::of(&manifests, &[]);
    let mut differences = Vec::new();
    for line in lines.iter().filter(|line| line.get("definition").is_none()) {
        let (kind, spec) = ("ValidatingAdmissionPolicy", &line["spec"]);
        let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "p"}, "spec": spec});
        let object = Object::from_value(object).unwrap();
        let parameters = spec.pointer("/paramKind/kind").and_then(Value::as_str).unwrap_or("Params");
        let found = policies::findings(kind, &object, &definitions, EmulatedRelease::default().expressions())
            .into_iter()
            .filter_map(|finding| match finding {
                Finding::Warning(field, text) => Some((field, text.replace(&format!("{parameters}2"), parameters))),
                _ => None,
            });
        let found: BTreeMap<String, String> = found.collect();
        let expected: BTreeMap<String, String> = serde_json::from_value(line["warnings"].clone()).unwrap();
        // The API refuses a policy with an expression that is wrong for every kind.
        let refused = validation::policy::policy(kind, &object, EmulatedRelease::default().expressions()).0;
        let fields: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
        for field in fields {
            let (expected, found) = (expected.get(field), found.get(field));
            let is_refused = refused.iter().any(|fault| fault.starts_with(&format!("{field}: ")));
            if expected != found && !(is_refused && expected.is_some() && found.is_none()) {
                differences.push(format!("{} {field}:\n{expected:#?}\n{found:#?}", line["name"]));
            }
        }
    }
    assert!(differences.is_empty(), "{} differ, expected first:\n{}", differences.len(), differences.join("\n"));
}

/// A report with a finding of each level.
fn findings() -> Report {
    let mut report = Report::default();
    let status = json!({
        "message": "pods \"a\" is forbidden: violates PodSecurity \"baseline:latest\": <privileged>",
        "reason": "Forbidden", "code": 403, "details": {"causes": [{"field": "spec.containers[0].image", "message": "m"}]},
    });
    let refused = Finding::Refused(Refusal::of(&status, String::new()));
    let answered = Finding::Answered("100%, or\nmore".to_owned());
    report.add("a b/f.yaml".as_ref(), "Pod \"a\"", vec![refused, answered], |field| field.len());
    let unknown = Finding::NotChecked("the kind is unknown".to_owned());
    report.add("g.yaml".as_ref(), "Widget \"w\"", vec![unknown], |_| 0);
    report
}

#[test]
fn a_report_has_formats_for_programs() {
    let report = findings();
    let found: Value = serde_json::from_str(&written(&report, Form::Json)).unwrap();
    assert_eq!(found["summary"], json!({"objects": 2, "errors": 1, "warnings": 1, "notChecked": 1}));
    assert_eq!([&found["objects"][0]["verdict"], &found["objects"][1]["verdict"]], ["refused", "notChecked"]);
    let first = &found["objects"][0]["findings"][0];
    let expected = json!({
        "level": "error", "by": "PodSecurity", "reason": "Forbidden", "code": 403, "line": 24, "field": "spec.containers[0].image",
        "message": "pods \"a\" is forbidden: violates PodSecurity \"baseline:latest\": <privileged>",
    });
    assert_eq!(*first, expected);

    let found: Value = serde_json::from_str(&written(&report, Form::Sarif)).unwrap();
    let run = &found["runs"][0];
    assert_eq!(run["tool"]["driver"]["rules"], json!([{"id": "PodSecurity"}, {"id": "Warning"}]));
    let results = run["results"].as_array().unwrap();
    assert_eq!((results.len(), &results[0]["ruleIndex"], &results[1]["level"]), (2, &json!(0), &json!("warning")));
    let place = &results[0]["locations"][0]["physicalLocation"];
    assert_eq!(*place, json!({"artifactLocation": {"uri": "a%20b/f.yaml"}, "region": {"startLine": 24}}));

    let expected = "\
::error file=a b/f.yaml,line=24,title=PodSecurity::Pod \"a\": pods \"a\" is forbidden: violates PodSecurity \"baseline:latest\": <privileged>
::warning file=a b/f.yaml,title=Warning::Pod \"a\": 100%25, or%0Amore
";
    assert_eq!(written(&report, Form::Github), expected);

    let expected = "\
<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<testsuites>
  <testsuite name=\"a b/f.yaml\" tests=\"1\" failures=\"1\" skipped=\"0\">
    <testcase classname=\"a b/f.yaml\" name=\"Pod &quot;a&quot;\">
      <failure type=\"PodSecurity\" message=\"pods &quot;a&quot; is forbidden: violates PodSecurity &quot;baseline:latest&quot;: &lt;privileged&gt;\">line 24</failure>
      <system-err>100%, or&#10;more</system-err>
    </testcase>
  </testsuite>
  <testsuite name=\"g.yaml\" tests=\"1\" failures=\"0\" skipped=\"1\">
    <testcase classname=\"g.yaml\" name=\"Widget &quot;w&quot;\">
      <skipped message=\"not checked: the kind is unknown\"/>
    </testcase>
  </testsuite>
</testsuites>
";
    assert_eq!(written(&report, Form::Junit), expected);
}

#[test]
fn a_finding_has_the_line_of_its_field() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f.yaml");
    let text = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap}\n- apiVersion: v1\n  kind: Pod\n  spec:\n    \
                containers: []\n---\n# why\napiVersion: v1\nkind: Pod\nspec:\n  nodeName: a\n";
    std::fs::write(&file, text).unwrap();
    let all = manifests::read(&file).unwrap();
    let [_, second, third] = all.as_slice() else { panic!("{}", all.len()) };
    assert_eq!([second.line_of(""), second.line_of("spec.containers[0]")], [5, 8]);
    assert_eq!([third.line_of(""), third.line_of("spec.nodeName"), third.line_of("spec.nodeNames")], [10, 14, 13]);
}
