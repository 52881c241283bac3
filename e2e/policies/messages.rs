//! The messages of failed validations, and their effects.

use super::{Place, holds, says};
use crate::harness::{User, delete, post};
use serde_json::{Value, json};

#[test]
fn a_failed_validation_has_the_message_of_the_policy() {
    let mut place = Place::new("messages");
    let long = format!("'{}'", "x".repeat(5 * 1024 + 1));
    for (case, validation) in [
        ("plain", json!({"expression": "false"})),
        ("trimmed", json!({"expression": "  object.data.a == '2'\n  "})),
        ("message", json!({"expression": "false", "message": "  said with \"quotes\"  "})),
        (
            "made",
            json!({"expression": "false", "message": "m", "messageExpression": "'a is ' + string(object.data.a)"}),
        ),
        ("padded", json!({"expression": "false", "messageExpression": "'  padded  '"})),
        ("lines", json!({"expression": "false", "message": "m", "messageExpression": "'two\\nlines'"})),
        ("blank", json!({"expression": "false", "messageExpression": "'   '"})),
        ("long", json!({"expression": "false", "message": "short", "messageExpression": long})),
        ("failing", json!({"expression": "false", "message": "m", "messageExpression": "string(object.data.absent)"})),
        ("forbidden", json!({"expression": "false", "reason": "Forbidden"})),
        ("too-large", json!({"expression": "false", "reason": "RequestEntityTooLarge"})),
        ("invalid", json!({"expression": "false", "reason": "Invalid", "message": "no"})),
    ] {
        place.judges(case, json!({ "validations": [validation] }));
    }
    place.judges(
        "first",
        json!({"validations": [{"expression": "true"}, {"expression": "false", "message": "second"},
        {"expression": "false", "message": "third", "reason": "Forbidden"}]}),
    );
    place.compare();
}

#[test]
fn a_failed_evaluation_is_a_denial_unless_the_policy_ignores_failures() {
    let mut place = Place::new("errors");
    for (case, expression) in [
        ("key", "object.data.absent == 'x'"),
        ("index", "[1][int(object.data.b)] == 1"),
        ("number", "int(object.metadata.name) > 0"),
        ("overload", "object.data.a > 1"),
        ("either", "object.data.absent == 'x' || object.data.a == '1'"),
    ] {
        place.judges(case, holds(expression));
        let mut ignoring = holds(expression);
        ignoring["failurePolicy"] = "Ignore".into();
        place.judges(&format!("{case}-ignored"), ignoring);
    }
    place.judges(
        "error-and-false",
        json!({"failurePolicy": "Ignore", "validations": [
        {"expression": "object.data.absent == 'x'"}, {"expression": "false", "message": "plainly false"}]}),
    );
    let nested = "[0,1,2,3,4,5,6,7,8,9]";
    let costly = format!(
        "{nested}.all(a, {nested}.all(b, {nested}.all(c, {nested}.all(d, {nested}.all(e, {nested}.all(f, a + b + c + d + e + f >= 0))))))"
    );
    place.judges("costly", holds(&costly));
    place.judges("costly-ignored", json!({"failurePolicy": "Ignore", "validations": [{ "expression": costly }]}));
    place.judges("spent", json!({"validations": vec![json!({ "expression": costly }); 12]}));
    place.judges("spent-on-messages", json!({"validations": vec![json!({"expression": "true", "messageExpression": format!("{costly} ? 'a' : 'b'")}); 12]}));
    place.compare();
}

#[test]
fn variables_are_found_when_they_are_needed() {
    let mut place = Place::new("variables");
    let with = |variables: Value, expression: &str| json!({"variables": variables, "validations": [{"expression": "false", "messageExpression": expression}]});
    let chain = json!([{"name": "a", "expression": "object.data.a"}, {"name": "twice", "expression": "variables.a + variables.a"}]);
    place.judges("chain", with(chain, "string(variables.twice + variables.a)"));
    let broken = json!([{"name": "broken", "expression": "object.data.absent"}, {"name": "fine", "expression": "1"}]);
    place.judges("unused", with(broken.clone(), "string(variables.fine)"));
    place.judges("broken", json!({"variables": broken, "validations": [{"expression": "variables.broken == ''"}]}));
    let typed = json!([{"name": "list", "expression": "[1, 2]"}, {"name": "map", "expression": "{'a': object.data}"}]);
    place.judges("typed", with(typed, "string(variables.list[1]) + string(variables.map['a'].b)"));
    place.compare();
}

#[test]
fn actions_warn_and_audit() {
    let mut place = Place::new("actions");
    for (case, actions) in [
        ("warn", json!(["Warn"])),
        ("audit", json!(["Audit"])),
        ("warn-audit", json!(["Warn", "Audit"])),
        ("deny-audit", json!(["Deny", "Audit"])),
    ] {
        let spec = json!({"validations": [{"expression": "false", "message": "say \"no\""}, {"expression": "object.data.absent == ''"},
            {"expression": "true"}]});
        place.validating(case, spec, json!({ "validationActions": actions }));
        place.tries(case, json!({}));
    }
    let annotated = |value: &str| json!({"validations": [{"expression": "true"}], "auditAnnotations": [{"key": "k", "valueExpression": value}]});
    for (case, value) in [
        ("annotated", "'value'"),
        ("null", "null"),
        ("error", "'a' + string(object.data.absent)"),
        ("authorizer", "string(authorizer.path('/healthz').check('get').allowed())"),
    ] {
        // kube-apiserver refuses some of these policies: the comparison covers the refusals.
        place.validating(case, annotated(value), json!({"validationActions": ["Warn"]}));
        place.tries(case, json!({}));
    }
    let mut ignoring = annotated("'a' + string(object.data.absent)");
    ignoring["failurePolicy"] = "Ignore".into();
    place.judges("error-ignored", ignoring);
    place.compare();
}

#[test]
fn expressions_see_the_request() {
    let mut place = Place::new("request");
    for (case, expression) in [
        ("kind", "request.kind.group + '|' + request.kind.version + '|' + request.kind.kind"),
        (
            "resource",
            "request.resource.resource + '|' + request.requestResource.version + '|' + request.requestKind.kind",
        ),
        ("subresource", "string(has(request.subResource)) + string(has(request.requestSubResource))"),
        ("name", "request.name + '|' + request.operation + '|' + string(request.dryRun)"),
        (
            "user",
            "request.userInfo.username + '|' + request.userInfo.groups.join(',') + string(has(request.userInfo.uid))",
        ),
        ("options", "request.options.kind + '|' + request.options.apiVersion + '|' + string(request.options.dryRun)"),
        ("old", "string(oldObject == null) + string(object.metadata.generation == 1)"),
        ("namespace", "namespaceObject.metadata.labels['team'] + namespaceObject.metadata.annotations['note']"),
        ("phase", "namespaceObject.status.phase + namespaceObject.spec.finalizers.join(',')"),
        ("params", "string(object.kind) + object.apiVersion"),
    ] {
        place.judges(case, says(expression));
    }
    place.judges("generated", holds("request.name.startsWith('some-') && request.name == object.metadata.name"));
    place.tries("generated", json!({"metadata": {"name": null, "generateName": "some-"}}));
    place.compare();
}

#[test]
fn old_objects_are_seen_in_updates_and_deletes() {
    let mut place = Place::new("old");
    let spec = json!({"validations": [{"expression": "request.operation != 'DELETE'", "messageExpression": "'kept: ' + string(oldObject.data.a) + string(object == null)"},
        {"expression": "request.operation != 'UPDATE' || oldObject.data.a == object.data.a", "message": "a stays",
         "messageExpression": "'a stays ' + string(oldObject.data.a)"}]});
    place.validating("kept", spec, json!({}));
    let maps = place.config_maps();
    let map = place.config_map("kept", json!({}));
    place.step(post(&maps, &map));
    let changed = place.config_map("kept", json!({"data": {"a": "3"}}));
    place.step(crate::harness::put(&format!("{maps}/kept"), &changed));
    place.step(delete(&format!("{maps}/kept")));
    place.step(delete(&maps));
    place.compare();
}

#[test]
fn expressions_ask_what_the_caller_may_do() {
    let mut place = Place::new("authorizer");
    let may = |check: &str| format!("string({check}.allowed()) + '|' + {check}.reason()");
    for (case, check) in [
        ("resource", "authorizer.group('').resource('configmaps').namespace('default').check('get')"),
        ("nodes", "authorizer.group('').resource('nodes').subresource('proxy').name('n').check('delete')"),
        ("path", "authorizer.path('/metrics').check('get')"),
        ("own", "authorizer.requestResource.check('create')"),
        ("own-other", "authorizer.requestResource.name('other').check('escalate')"),
        ("account", "authorizer.serviceAccount('default', 'nobody').group('').resource('pods').check('list')"),
    ] {
        let spec = json!({"variables": [{"name": "said", "expression": may(check)}],
            "validations": [{"expression": "variables.said == ''"}, {"expression": format!("{check}.allowed()")}]});
        place.validating(case, spec, json!({}));
        let map = place.config_map(case, json!({}));
        let request = post(&format!("{}?dryRun=All", place.config_maps()), &map);
        place.steps.extend([(User::admin(), request.clone()), (User::developer(), request)]);
    }
    place.judges("conditional", json!({"matchConditions": [{"name": "c", "expression": "!authorizer.requestResource.check('approve').allowed()"}],
        "validations": [{"expression": "false", "message": "may not approve"}]}));
    let map = place.config_map("conditional", json!({}));
    let request = post(&format!("{}?dryRun=All", place.config_maps()), &map);
    place.steps.push((User::developer(), request));
    place.compare();
}
