//! DELETE of single objects and of collections: finalizers, propagation policies and the number of admission requests.

use crate::harness::{Api, Pair, Request, Review, User, Webhook, delete, eventually, get, post};
use serde_json::{Value, json};

const PLUGINS: [&str; 2] = ["MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"];
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn config_map(name: &str, finalizers: &[&str]) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"of": name}, "finalizers": finalizers}})
}

/// A DELETE with these options in its body.
fn delete_with(path: &str, options: &Value) -> Request {
    delete(path).body("application/json", options.to_string())
}

/// A mutating and a validating webhook that receive every DELETE.
fn asked_about_deletes(webhook: &Webhook, pair: &Pair, resources: &[&str]) {
    for kind in ["Mutating", "Validating"] {
        let mut configuration = webhook.about_everything(kind, &format!("/allow/{}", kind.to_lowercase()));
        configuration["webhooks"][0]["rules"][0]["operations"] = json!(["DELETE"]);
        configuration["webhooks"][0]["rules"][0]["resources"] = json!(resources);
        let path = format!("/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations", kind.to_lowercase());
        pair.set_up(&[post(&path, &configuration)]);
    }
}

/// Waits until both phases call the webhook.
fn known(api: &Api, webhook: &Webhook) {
    eventually("webhooks that are known", || {
        api.send(&User::admin(), post(MAPS, &config_map("probe", &[])));
        api.send(&User::admin(), delete(&format!("{MAPS}/probe")));
        let asked = webhook.take();
        let phases = ["/allow/mutating", "/allow/validating"];
        phases.iter().all(|path| asked.iter().any(|review| review.path.starts_with(path))).then_some(())
    });
}

#[test]
fn deletes_are_admitted_as_often_and_done_as_by_kube_apiserver() {
    let (webhook, pair) = (Webhook::start(), Pair::alone(&PLUGINS, &[], &[], &[]));
    asked_about_deletes(&webhook, &pair, &["configmaps", "namespaces", "pods"]);
    finalizers_come_and_go_as_the_options_say(&webhook, &pair);
    what_is_going_already_is_not_admitted_again(&webhook, &pair);
    a_pod_that_goes_at_once_is_admitted_twice(&webhook, &pair);
    a_version_that_the_client_names_is_lost_with_the_last_finalizer(&pair);
    a_collection_is_admitted_with_the_options_of_the_client(&webhook, &pair);
}

fn finalizers_come_and_go_as_the_options_say(webhook: &Webhook, pair: &Pair) {
    let policies = [
        json!({}),
        json!({"propagationPolicy": "Background"}),
        json!({"propagationPolicy": "Foreground"}),
        json!({"propagationPolicy": "Orphan"}),
        json!({"orphanDependents": false}),
    ];
    let mut steps = Vec::new();
    let fresh = get(&format!("{MAPS}?labelSelector=of%3Dnothing"));
    let kept: [&[&str]; 5] =
        [&[], &["orphan"], &["foregroundDeletion"], &["orphan", "foregroundDeletion"], &["e2e.test/kept", "orphan"]];
    for (at, finalizers) in kept.into_iter().enumerate() {
        for (first, options) in policies.iter().enumerate() {
            for (second, again) in policies.iter().enumerate().take(4).skip(1) {
                let name = format!("map-{at}-{first}-{second}");
                let path = format!("{MAPS}/{name}");
                steps.push(post(MAPS, &config_map(&name, finalizers)));
                // The list waits for the watch cache: with an outdated cache kube-apiserver calls the webhook once more.
                steps.extend([fresh.clone(), delete_with(&path, options), fresh.clone(), delete_with(&path, again)]);
                steps.push(get(&path));
            }
        }
    }
    // An object in a collection; a precondition of the client.
    for name in ["one", "two", "three"] {
        let mut map = config_map(name, if name == "two" { &["orphan"] } else { &[] });
        map["metadata"]["labels"] = json!({"of": "many"});
        steps.push(post(MAPS, &map));
    }
    steps.push(fresh.clone());
    steps.push(delete_with(&format!("{MAPS}?labelSelector=of%3Dmany"), &policies[1]));
    steps.push(get(&format!("{MAPS}?labelSelector=of%3Dmany")));
    steps.push(post(MAPS, &config_map("dry", &["orphan"])));
    steps.push(fresh);
    steps.push(delete_with(&format!("{MAPS}/dry"), &json!({"propagationPolicy": "Background", "dryRun": ["All"]})));
    steps.push(delete_with(
        &format!("{MAPS}/dry"),
        &json!({"propagationPolicy": "Background", "preconditions": {"uid": format!("{{uid of {MAPS}/dry}}")}}),
    ));
    let steps: Vec<(User, Request)> = steps.into_iter().map(|step| (User::admin(), step)).collect();
    pair.compare_asked(webhook, |api| known(api, webhook), &steps);
}

fn what_is_going_already_is_not_admitted_again(webhook: &Webhook, pair: &Pair) {
    let (namespaces, pods) = ("/api/v1/namespaces", "/api/v1/namespaces/default/pods");
    let mut steps =
        vec![post(namespaces, &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "going"}}))];
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "going"},
        "spec": {"nodeName": "node", "containers": [{"name": "c", "image": "i"}]}});
    steps.push(post(pods, &pod));
    for (collection, options) in [
        (namespaces, json!({"dryRun": ["All"]})),
        (namespaces, json!({})),
        (namespaces, json!({})),
        (namespaces, json!({"dryRun": ["All"]})),
        (namespaces, json!({"propagationPolicy": "Orphan"})),
        (pods, json!({"dryRun": ["All"]})),
        (pods, json!({})),
        (pods, json!({})),
        (pods, json!({"gracePeriodSeconds": 30})),
        (pods, json!({"gracePeriodSeconds": 5})),
        (pods, json!({"gracePeriodSeconds": 7})),
    ] {
        steps.push(get(&format!("{collection}?labelSelector=of%3Dnothing")));
        steps.push(delete_with(&format!("{collection}/going"), &options));
    }
    let steps: Vec<(User, Request)> = steps.into_iter().map(|step| (User::admin(), step)).collect();
    pair.compare_asked(webhook, |api| known(api, webhook), &steps);
}

fn a_collection_is_admitted_with_the_options_of_the_client(webhook: &Webhook, pair: &Pair) {
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "placed", "labels": {"of": "placed"}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    pair.set_up(&[post(pods, &pod)]);
    let all = |query: &str| format!("{pods}?labelSelector=of%3Dplaced{query}");
    let steps = vec![
        delete(&all("&dryRun=All")),
        delete(&all("&dryRun=All&gracePeriodSeconds=7")),
        delete_with(&all(""), &json!({"dryRun": ["All"], "gracePeriodSeconds": -7})),
        delete(&format!("{pods}/placed?dryRun=All")),
        delete(&format!("{pods}/placed?dryRun=All&gracePeriodSeconds=-7")),
        delete(&all("")),
    ];
    let steps: Vec<_> = steps.into_iter().map(|step| (User::admin(), step)).collect();
    pair.compare_asked(webhook, |api| known(api, webhook), &steps);
}

fn a_pod_that_goes_at_once_is_admitted_twice(webhook: &Webhook, pair: &Pair) {
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "now"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    // With an outdated watch cache kube-apiserver calls the webhook twice with the same object.
    let [expected, found] = pair.sides().map(|api| {
        known(api, webhook);
        api.accepts(post(pods, &pod));
        webhook.take();
        api.accepts(delete(&format!("{pods}/now")));
        let marks = |review: &Value| {
            let metadata = &review["request"]["oldObject"]["metadata"];
            (
                metadata["generation"].clone(),
                metadata["deletionGracePeriodSeconds"].clone(),
                metadata["deletionTimestamp"].is_string(),
            )
        };
        let of_it = |review: &Review| review.body["request"]["name"] == "now";
        let asked = webhook.take().into_iter().filter(of_it);
        let mut states: Vec<_> = asked.map(|review| (review.path.clone(), marks(&review.body))).collect();
        states.iter_mut().for_each(|(path, _)| path.truncate("/allow/mutating".len()));
        states.sort_by_key(|state| format!("{state:?}"));
        states.dedup();
        states
    });
    assert_eq!((found.len(), &found), (4, &expected));
}

fn a_version_that_the_client_names_is_lost_with_the_last_finalizer(pair: &Pair) {
    for api in pair.sides() {
        let created = api.accepts(post(MAPS, &config_map("named", &["orphan"])));
        let version = created["metadata"]["resourceVersion"].clone();
        let options = json!({"propagationPolicy": "Background", "preconditions": {"resourceVersion": version}});
        let answer = api.send(&User::admin(), delete_with(&format!("{MAPS}/named"), &options));
        assert_eq!(answer.status, 409, "{}", answer.text());
        assert!(answer.message().contains("ResourceVersion in precondition: , "), "{}", answer.text());
    }
}
