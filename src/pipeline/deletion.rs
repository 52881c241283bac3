//! The steps of a DELETE (`registry.Store.Delete`) that admission sees: how often admission runs, and with which object.

use crate::kind::GroupVersionKind;
use crate::object::Object;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::sync::Arc;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
const TIMESTAMP: [&str; 2] = ["metadata", "deletionTimestamp"];
const PERIOD: [&str; 2] = ["metadata", "deletionGracePeriodSeconds"];
const FINALIZERS: [&str; 2] = ["metadata", "finalizers"];

/// The scope of a DELETE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deletion {
    OfOne,
    OfCollection,
}

/// Returns the states of the object that admission sees, in order: none if the DELETE changes nothing, two if the object is
/// updated or read before its removal from the store. `options` are as the storage completes them.
pub(super) fn admitted_states(
    kind: &GroupVersionKind,
    options: &Object,
    old: &Arc<Object>,
    deletion: Deletion,
) -> Vec<Arc<Object>> {
    let is_going = !old.str(&TIMESTAMP).is_empty();
    if deletion == Deletion::OfOne && (&*kind.group, &*kind.kind) == ("", "Namespace") {
        match (is_going, old.items(&["spec", "finalizers"]).is_empty()) {
            (false, _) => return vec![old.clone()],
            (true, false) => return Vec::new(),
            (true, true) => {}
        }
    }
    let is_definition = (&*kind.group, &*kind.kind) == ("apiextensions.k8s.io", "CustomResourceDefinition");
    if deletion == Deletion::OfOne && is_definition && !is_going {
        return vec![old.clone()];
    }
    let finalizers = finalizers_after(kind, options, old);
    let (is_dry_run, keeps_some) = (!options.items(&["dryRun"]).is_empty(), !finalizers.is_empty());
    let once = is_dry_run || keeps_some;
    match graceful(kind, options, old) {
        Graceful::Pending => Vec::new(),
        Graceful::Within(seconds) if once || seconds > 0 => vec![old.clone()],
        Graceful::Within(_) => vec![old.clone(), Arc::new(marked(old))],
        Graceful::No if once || old.items(&FINALIZERS).is_empty() => vec![old.clone()],
        Graceful::No => vec![old.clone(), old.clone()],
    }
}

/// The form of an object's deletion (`rest.BeforeDelete`).
#[derive(Debug, PartialEq, Eq)]
enum Graceful {
    /// Immediate, as far as finalizers allow.
    No,
    /// The object is marked, and removed after these seconds.
    Within(i64),
    /// The object is marked already, and the request does not shorten its period.
    Pending,
}

fn graceful(kind: &GroupVersionKind, options: &Object, old: &Object) -> Graceful {
    if (&*kind.group, &*kind.kind) != ("", "Pod") {
        return Graceful::No;
    }
    let asked = options.get(&["gracePeriodSeconds"]).and_then(Value::as_i64);
    if old.str(&TIMESTAMP).is_empty() {
        return Graceful::Within(asked.unwrap_or(0));
    }
    match old.get(&PERIOD).and_then(Value::as_i64).unwrap_or(0) {
        0 => Graceful::No,
        set => asked.filter(|asked| *asked < set).map_or(Graceful::Pending, Graceful::Within),
    }
}

/// Returns the remaining finalizers (`deletionFinalizersForGarbageCollection`).
fn finalizers_after(kind: &GroupVersionKind, options: &Object, old: &Object) -> Vec<Value> {
    let finalizers = old.items(&FINALIZERS);
    if kind.kind == "Event" && matches!(&*kind.group, "" | "events.k8s.io") {
        // `rest.Unsupported`
        return finalizers.iter().filter(|one| *one != ORPHAN && *one != FOREGROUND).cloned().collect();
    }
    let has = |name: &str| finalizers.iter().any(|one| one == name);
    let orphans = options.get(&["orphanDependents"]).and_then(Value::as_bool);
    let policy = options.get(&["propagationPolicy"]).and_then(Value::as_str);
    let by_default = matches!((&*kind.group, &*kind.kind), ("batch", "Job") | ("", "ReplicationController"));
    let (orphan, foreground) = match (orphans, policy) {
        (Some(orphans), _) => (orphans, false),
        (None, Some(policy)) => (policy == "Orphan", policy == "Foreground"),
        (None, None) if has(ORPHAN) => (true, has(FOREGROUND)),
        (None, None) => (by_default && !has(FOREGROUND), has(FOREGROUND)),
    };
    let kept = finalizers.iter().filter(|one| *one != ORPHAN && *one != FOREGROUND).cloned();
    let added = [(orphan, ORPHAN), (foreground, FOREGROUND)].into_iter().filter(|(is_set, _)| *is_set);
    kept.chain(added.map(|(_, name)| name.into())).collect()
}

/// Returns the object as updated right before its immediate removal from the store. Only the new resourceVersion is unknown.
fn marked(old: &Object) -> Object {
    let mut marked = old.clone();
    let period = old.get(&PERIOD).and_then(Value::as_i64).unwrap_or(0);
    let set: Option<Timestamp> = old.str(&TIMESTAMP).parse().ok();
    let end =
        set.and_then(|set| set.checked_sub(SignedDuration::from_secs(period)).ok()).unwrap_or_else(Timestamp::now);
    let _metadata_is_an_object = marked.set(&TIMESTAMP, end.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into());
    let _metadata_is_an_object = marked.set(&PERIOD, 0.into());
    let generation = old.get(&["metadata", "generation"]).and_then(Value::as_i64).filter(|generation| *generation > 0);
    if let (Some(generation), None) = (generation, set) {
        let _metadata_is_an_object = marked.set(&["metadata", "generation"], generation.saturating_add(1).into());
    }
    marked.remove(&FINALIZERS);
    marked
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(metadata: Value, spec: Value) -> Arc<Object> {
        Arc::new(Object::from_value(json!({"metadata": metadata, "spec": spec})).unwrap())
    }

    #[test]
    fn admission_runs_as_often_as_the_storage_reads_the_object() {
        let background = json!({"propagationPolicy": "Background"});
        let going = |more: Value| {
            let mut metadata = json!({"deletionTimestamp": "2026-01-01T00:00:30Z"});
            metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            metadata
        };
        for (group, kind, metadata, spec, options, times) in [
            ("", "ConfigMap", json!({}), json!({}), json!({}), 1),
            ("", "ConfigMap", json!({"finalizers": ["a"]}), json!({}), background.clone(), 1),
            ("", "ConfigMap", json!({"finalizers": ["orphan"]}), json!({}), json!({}), 1),
            ("", "ConfigMap", json!({"finalizers": ["orphan"]}), json!({}), background.clone(), 2),
            ("", "ConfigMap", json!({"finalizers": ["orphan"]}), json!({}), json!({"orphanDependents": false}), 2),
            (
                "",
                "ConfigMap",
                json!({"finalizers": ["orphan"]}),
                json!({}),
                json!({"propagationPolicy": "Foreground"}),
                1,
            ),
            (
                "",
                "ConfigMap",
                json!({"finalizers": ["orphan"]}),
                json!({}),
                json!({"propagationPolicy": "Background", "dryRun": ["All"]}),
                1,
            ),
            ("", "ConfigMap", going(json!({"finalizers": ["foregroundDeletion"]})), json!({}), json!({}), 1),
            ("", "ConfigMap", going(json!({"finalizers": ["foregroundDeletion"]})), json!({}), background.clone(), 2),
            ("", "Event", json!({"finalizers": ["orphan"]}), json!({}), json!({}), 2),
            ("batch", "Job", json!({}), json!({}), json!({}), 1),
            ("", "Namespace", json!({}), json!({"finalizers": ["kubernetes"]}), json!({}), 1),
            ("", "Namespace", going(json!({})), json!({"finalizers": ["kubernetes"]}), json!({}), 0),
            ("", "Namespace", going(json!({"finalizers": ["a"]})), json!({}), json!({}), 1),
            ("", "Pod", json!({}), json!({}), json!({"gracePeriodSeconds": 0}), 2),
            ("", "Pod", json!({}), json!({}), json!({"gracePeriodSeconds": 30}), 1),
            ("", "Pod", json!({"finalizers": ["a"]}), json!({}), json!({"gracePeriodSeconds": 0}), 1),
            ("", "Pod", json!({}), json!({}), json!({"gracePeriodSeconds": 0, "dryRun": ["All"]}), 1),
            ("", "Pod", going(json!({"deletionGracePeriodSeconds": 30})), json!({}), json!({}), 0),
            (
                "",
                "Pod",
                going(json!({"deletionGracePeriodSeconds": 30})),
                json!({}),
                json!({"gracePeriodSeconds": 30}),
                0,
            ),
            (
                "",
                "Pod",
                going(json!({"deletionGracePeriodSeconds": 30})),
                json!({}),
                json!({"gracePeriodSeconds": 5}),
                1,
            ),
            (
                "",
                "Pod",
                going(json!({"deletionGracePeriodSeconds": 30})),
                json!({}),
                json!({"gracePeriodSeconds": 0}),
                2,
            ),
            ("", "Pod", going(json!({"deletionGracePeriodSeconds": 0, "finalizers": ["a"]})), json!({}), json!({}), 1),
        ] {
            let (old, options) = (object(metadata, spec), Object::from_value(options).unwrap());
            let states = admitted_states(&GroupVersionKind::new(group, "v1", kind), &options, &old, Deletion::OfOne);
            assert_eq!(states.len(), times, "{kind} {:?} {options:?}", old);
        }
    }

    #[test]
    fn a_pod_that_goes_at_once_is_seen_marked() {
        let pod = GroupVersionKind::new("", "v1", "Pod");
        let at_once = Object::from_value(json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"})).unwrap();
        let states = |metadata: Value| {
            let old = object(metadata, json!({}));
            let states = admitted_states(&pod, &at_once, &old, Deletion::OfCollection);
            assert_eq!(states[0], old);
            states[1].get(&["metadata"]).unwrap().clone()
        };
        assert_eq!(
            states(
                json!({"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30, "generation": 4})
            ),
            json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0, "generation": 4})
        );
        let fresh = states(json!({"generation": 1, "finalizers": ["orphan"]}));
        assert_eq!((&fresh["generation"], &fresh["deletionGracePeriodSeconds"]), (&json!(2), &json!(0)));
        assert!(fresh["deletionTimestamp"].is_string() && fresh.get("finalizers").is_none());
    }
}
