//! PodTolerationRestriction: adds a namespace's default tolerations to pods, and checks the whitelist of tolerations.

use crate::admission::{
    Attributes, BuildError, Denial, FrontEndSupport, Operation, Operations, Phases, Plugin, PluginEnvironment,
    Resources, Spec,
};
use crate::cluster::{Cluster, Need};
use crate::go_text;
use crate::object::Object;
use crate::object::decode::{InvalidJson, json};
use crate::plugins::rules::pod::is_best_effort;
use crate::plugins::rules::toleration::{TOO_MANY, are_allowed, merge};
use crate::status::Status;
use async_trait::async_trait;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "PodTolerationRestriction",
    default_on: false,
    phases: Phases::Both,
    operations: Operations::CREATE.or(Operations::UPDATE),
    resources: Resources::Only(&[("", "pods", "")]),
    needs: &[Need::NAMESPACES],
    configuration: Some("podtolerationrestriction.admission.k8s.io/v1alpha1 Configuration"),
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Adds a namespace's default tolerations to pods, and refuses tolerations that are not on its whitelist.",
    build,
};

const TOLERATIONS: [&str; 2] = ["spec", "tolerations"];
const DEFAULTS: &str = "scheduler.alpha.kubernetes.io/defaultTolerations";
const WHITELIST: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";

struct PodTolerationRestriction {
    cluster: Arc<Cluster>,
    defaults: Vec<Value>,
    whitelist: Vec<Value>,
}

fn build(environment: &PluginEnvironment<'_>) -> Result<Box<dyn Plugin>, BuildError> {
    let (mut defaults, mut whitelist) = (Vec::new(), Vec::new());
    if let Some(configuration) = environment.configuration {
        let of = |field: &str| match configuration.value.get(field) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(items)) => items
                .iter()
                .map(toleration)
                .collect::<Result<Vec<_>, _>>()
                .map_err(|why| configuration.invalid(format_args!("{field}: {why}"))),
            Some(_) => Err(configuration.invalid(format_args!("{field}: must be a list of tolerations"))),
        };
        configuration.expect_kind("podtolerationrestriction.admission.k8s.io/v1alpha1", "Configuration")?;
        (defaults, whitelist) = (of("default")?, of("whitelist")?);
        let faults: Vec<String> = [("default", &defaults), ("whitelist", &whitelist)]
            .into_iter()
            .flat_map(|(field, list)| list.iter().enumerate().filter_map(move |(i, item)| fault(field, i, item)))
            .collect();
        if !faults.is_empty() {
            return Err(configuration.invalid(format_args!("invalid config: [{}]", faults.join(", "))));
        }
    }
    Ok(Box::new(PodTolerationRestriction { cluster: environment.cluster.clone(), defaults, whitelist }))
}

/// The validation error of a toleration in the configuration (`validation.ValidateTolerations`).
fn fault(field: &str, index: usize, toleration: &Value) -> Option<String> {
    let path = format!("podtolerationrestriction.{field}[{index}]");
    let text = |field: &str| toleration.get(field).and_then(Value::as_str).unwrap_or_default();
    let (key, operator, effect) = (text("key"), text("operator"), text("effect"));
    if !key.is_empty()
        && let Some(error) = crate::names::qualified_name_errors(key).first()
    {
        return Some(format!("{path}.key: Invalid value: {key:?}: {error}"));
    }
    if key.is_empty() && operator != "Exists" {
        return Some(format!(
            "{path}.operator: Invalid value: {operator:?}: operator must be Exists when `key` is empty, which means \"match all values and all keys\""
        ));
    }
    if toleration.get("tolerationSeconds").is_some_and(|seconds| !seconds.is_null()) && effect != "NoExecute" {
        return Some(format!(
            "{path}.effect: Invalid value: {effect:?}: effect must be 'NoExecute' when `tolerationSeconds` is set"
        ));
    }
    if operator == "Exists" && !text("value").is_empty() {
        return Some(format!(
            "{path}.operator: Invalid value: {}: value must be empty when `operator` is 'Exists'",
            toleration
        ));
    }
    if !["", "Equal", "Exists"].contains(&operator) {
        return Some(format!(
            "{path}.operator: Unsupported value: {operator:?}: supported values: \"Equal\", \"Exists\""
        ));
    }
    if !["", "NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
        return Some(format!(
            "{path}.effect: Unsupported value: {effect:?}: supported values: \"NoExecute\", \"NoSchedule\", \"PreferNoSchedule\""
        ));
    }
    None
}

#[async_trait]
impl Plugin for PodTolerationRestriction {
    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        self.wait().await?;
        let mut extra = Vec::new();
        if attributes.operation == Operation::Create || attributes.updates_uninitialized() {
            let given = self.annotated(&attributes.namespace, DEFAULTS).await?;
            extra = given.unwrap_or_else(|| self.defaults.clone());
        }
        let Some(pod) = &mut attributes.object else { return Ok(()) };
        if !is_best_effort(pod) {
            extra.push(
                json!({"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"}),
            );
        }
        if !extra.is_empty() {
            let merged = merge(pod.items(&TOLERATIONS), &extra).ok_or_else(|| Denial::forbidden(TOO_MANY))?;
            if merged != pod.items(&TOLERATIONS) && !pod.set(&TOLERATIONS, Value::Array(merged)) {
                return Err(Denial::forbidden("spec: not an object"));
            }
        }
        self.verify(attributes).await
    }

    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        self.wait().await?;
        self.verify(attributes).await
    }
}

impl PodTolerationRestriction {
    async fn wait(&self) -> Result<(), Denial> {
        match self.cluster.wait_synced().await {
            true => Ok(()),
            false => Err(Denial::forbidden("not yet ready to handle request")),
        }
    }

    async fn verify(&self, attributes: &Attributes) -> Result<(), Denial> {
        let tolerations = attributes.object.as_ref().map(|pod: &Object| pod.items(&TOLERATIONS)).unwrap_or_default();
        if tolerations.is_empty() {
            return Ok(());
        }
        let own = self.annotated(&attributes.namespace, WHITELIST).await?;
        let (whitelist, whose) = match &own {
            Some(own) => (own, "namespace"),
            None => (&self.whitelist, "cluster"),
        };
        match are_allowed(tolerations, whitelist) {
            true => Ok(()),
            false => Err(Denial::Plain(format!(
                "pod tolerations (possibly merged with namespace default tolerations) conflict with its {whose} whitelist"
            ))),
        }
    }

    /// The tolerations in an annotation of the namespace. `None` if the namespace has no such annotation.
    async fn annotated(&self, namespace: &str, key: &str) -> Result<Option<Vec<Value>>, Denial> {
        let found = match self.cluster.namespace(namespace) {
            Some(found) => found,
            None => {
                let live = self.cluster.live_namespace(namespace).await;
                let live = live.map_err(|status| Denial::from(Status::internal_error(status.message)))?;
                live.ok_or_else(|| Status::not_found("", "namespaces", namespace))?
            }
        };
        match found.annotations.get(key) {
            None => Ok(None),
            Some("") => Ok(Some(Vec::new())),
            Some(text) => tolerations(text).map(Some).map_err(|why| Denial::Plain(why.to_string())),
        }
    }
}

/// The fields of a toleration, and their Go types.
const FIELDS: [(&str, &str); 5] = [
    ("key", "string"),
    ("operator", "v1.TolerationOperator"),
    ("value", "string"),
    ("effect", "v1.TaintEffect"),
    ("tolerationSeconds", "int64"),
];

/// The reason why a text is no list of tolerations, with the text of Go's `encoding/json`.
#[derive(Debug, thiserror::Error)]
enum NoTolerations {
    /// The text is no JSON.
    #[error(transparent)]
    Syntax(#[from] InvalidJson),
    /// The value is no list.
    #[error("json: cannot unmarshal {0} into Go value of type []v1.Toleration")]
    List(&'static str),
    /// An item is no object.
    #[error("json: cannot unmarshal {0} into Go value of type v1.Toleration")]
    Item(&'static str),
    /// A field has another type; `found` includes the number that is none of Go's `int64`.
    #[error("json: cannot unmarshal {found} into Go struct field Toleration.{field} of type {wanted}")]
    Field { found: String, field: &'static str, wanted: &'static str },
}

/// Parses a list of tolerations like Go's `encoding/json`: keys in any letter case, unknown keys ignored.
fn tolerations(text: &str) -> Result<Vec<Value>, NoTolerations> {
    match json(text.as_bytes())?.value {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => items.iter().map(toleration).collect(),
        other => Err(NoTolerations::List(go_text::go_type(&other))),
    }
}

fn toleration(item: &Value) -> Result<Value, NoTolerations> {
    let given = match item {
        Value::Null => return Ok(json!({})),
        Value::Object(given) => given,
        other => return Err(NoTolerations::Item(go_text::go_type(other))),
    };
    let mut read = Map::new();
    for (key, value) in given.iter().filter(|(_, value)| !value.is_null()) {
        let Some((field, go_type)) = FIELDS.iter().find(|(field, _)| field.eq_ignore_ascii_case(key)) else { continue };
        let is_right = if *go_type == "int64" { value.is_i64() } else { value.is_string() };
        if !is_right {
            let number = if *go_type == "int64" && value.is_number() { format!(" {value}") } else { String::new() };
            let found = format!("{}{number}", go_text::go_type(value));
            return Err(NoTolerations::Field { found, field, wanted: go_type });
        }
        if value != "" {
            read.insert((*field).to_owned(), value.clone());
        }
    }
    Ok(Value::Object(read))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{FixedState, Namespace};
    use crate::plugins::checker::{Checked, check};

    fn exists(key: &str) -> Value {
        json!({"key": key, "operator": "Exists"})
    }

    fn plugin(annotations: &[(&str, &str)], defaults: &[&str], whitelist: &[&str]) -> PodTolerationRestriction {
        let annotations = annotations.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        let namespaces = vec![Namespace { name: "n".into(), annotations, ..Namespace::default() }];
        let of = |keys: &[&str]| keys.iter().map(|key| exists(key)).collect();
        PodTolerationRestriction {
            cluster: Cluster::fixed(FixedState { namespaces, ..FixedState::default() }),
            defaults: of(defaults),
            whitelist: of(whitelist),
        }
    }

    fn pod(keys: &[&str]) -> Value {
        let tolerations: Vec<Value> = keys.iter().map(|key| exists(key)).collect();
        json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [{"name": "c"}], "tolerations": tolerations}})
    }

    async fn create(plugin: &PodTolerationRestriction, pod: Value) -> Checked {
        check(plugin).create("", "pods", pod).await
    }

    #[tokio::test]
    async fn the_namespaces_defaults_go_before_the_clusters() {
        create(&plugin(&[], &["cluster"], &[]), pod(&["own"])).await.becomes(pod(&["own", "cluster"]));
        let own = [(DEFAULTS, r#"[{"key":"namespace","operator":"Exists"}]"#)];
        create(&plugin(&own, &["cluster"], &[]), pod(&["own"])).await.becomes(pod(&["own", "namespace"]));
        create(&plugin(&[(DEFAULTS, "")], &["cluster"], &[]), pod(&["own"])).await.stays_unchanged();
        let updated = check(&plugin(&[], &["cluster"], &[])).update("", "pods", pod(&[]), pod(&["own"])).await;
        updated.stays_unchanged();
    }

    #[tokio::test]
    async fn a_pod_gets_the_defaults_until_it_is_initialized() {
        let mut waiting = pod(&[]);
        waiting["metadata"]["initializers"] = json!({"pending": [{"name": "a.b.c"}]});
        let updated = check(&plugin(&[], &["cluster"], &[])).update("", "pods", waiting, pod(&["own"])).await;
        updated.becomes(pod(&["own", "cluster"]));
    }

    #[tokio::test]
    async fn pods_that_ask_for_resources_tolerate_memory_pressure() {
        let mut asking = pod(&[]);
        asking["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
        let after = check(&plugin(&[], &[], &[])).update("", "pods", asking.clone(), asking).await.after();
        assert_eq!(after["spec"]["tolerations"][0]["key"], "node.kubernetes.io/memory-pressure");
    }

    #[tokio::test]
    async fn a_toleration_off_the_whitelist_is_a_plain_error() {
        let text = |whose: &str| {
            format!(
                "pod tolerations (possibly merged with namespace default tolerations) conflict with its {whose} whitelist"
            )
        };
        create(&plugin(&[], &[], &["a"]), pod(&["b"])).await.was_refused(500, &text("cluster"));
        let own = [(WHITELIST, r#"[{"key":"a","operator":"Exists"}]"#)];
        create(&plugin(&own, &[], &["b"]), pod(&["b"])).await.was_refused(500, &text("namespace"));
        create(&plugin(&[(WHITELIST, "")], &[], &["a"]), pod(&["b"])).await.stays_unchanged();
        create(&plugin(&[], &[], &["a"]), pod(&[])).await.stays_unchanged();
        let merged = create(&plugin(&[], &["b"], &["a"]), pod(&["a"])).await;
        merged.was_refused(500, &text("cluster"));
    }

    #[tokio::test]
    async fn a_missing_namespace_is_404_and_a_broken_annotation_500() {
        let mut elsewhere = pod(&["a"]);
        elsewhere["metadata"]["namespace"] = "nowhere".into();
        create(&plugin(&[], &[], &[]), elsewhere).await.was_refused(404, "namespaces \"nowhere\" not found");
        let broken = create(&plugin(&[(DEFAULTS, "{")], &[], &[]), pod(&[])).await;
        broken.was_refused(500, "unexpected end of JSON input");
    }

    #[test]
    fn annotations_are_read_as_go_reads_them() {
        let cannot = |what: &str| Err(format!("json: cannot unmarshal {what}"));
        for (text, want) in [
            ("null", Ok(vec![])),
            (r#"[{"KEY":"a","effect":"","other":1,"value":null},null]"#, Ok(vec![json!({"key": "a"}), json!({})])),
            ("{}", cannot("object into Go value of type []v1.Toleration")),
            ("[[]]", cannot("array into Go value of type v1.Toleration")),
            (r#"[{"key":7}]"#, cannot("number into Go struct field Toleration.key of type string")),
            (r#"[{"effect":true}]"#, cannot("bool into Go struct field Toleration.effect of type v1.TaintEffect")),
            (
                r#"[{"tolerationSeconds":1.5}]"#,
                cannot("number 1.5 into Go struct field Toleration.tolerationSeconds of type int64"),
            ),
            ("[x]", Err("invalid character 'x' looking for beginning of value".to_owned())),
        ] {
            assert_eq!(tolerations(text).map_err(|why| why.to_string()), want, "{text}");
        }
    }

    #[test]
    fn a_wrong_toleration_in_the_configuration_is_named() {
        assert!(fault("default", 0, &exists("a")).is_none());
        let wrong = fault("whitelist", 1, &json!({"key": "a", "effect": "Never"})).unwrap();
        assert!(
            wrong.starts_with("podtolerationrestriction.whitelist[1].effect: Unsupported value: \"Never\""),
            "{wrong}"
        );
        assert!(fault("default", 0, &json!({"value": "v"})).is_some());
    }
}
