//! PATCH with an apply configuration: server-side apply.
//!
//! Only the API server knows the field managers, so it computes the outcome with a dry run. What admission adds to it goes
//! into the apply configuration that is forwarded.

use super::Exchange;
use super::gateway::Answer;
use super::write::{MODIFIED, Outgoing, Write, is_conflict, schema};
use crate::admission::Operation;
use crate::object::Object;
use crate::object::patch::{self, PatchType};
use crate::object::schema::Type;
use crate::request::body::{OptionsKind, WriteOptions};
use crate::request::query::query_values;
use crate::status::Status;
use crate::upstream::Body;
use bytes::Bytes;
use http::{Response, Uri};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A resourceVersion that no object has: an apply configuration with it creates a missing object and conflicts with one
/// that is there.
const NO_VERSION: &str = "1";

impl Write<'_> {
    /// Admits what the apply comes to, and applies it.
    pub(super) async fn apply(
        &self,
        options: &WriteOptions,
        exchange: &mut Exchange,
    ) -> Result<Response<Body>, Status> {
        let decoded = patch::decode(PatchType::Apply, &self.body)?;
        self.say_duplicates(options, &decoded.duplicates, || {
            format!(
                "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  {}",
                decoded.duplicates.join("\n  ")
            )
        })?;
        if let Some(event) = &mut exchange.event {
            event.set_request_patch(&decoded.value);
        }
        // An empty document is an empty object.
        let value = if decoded.value.is_null() { json!({}) } else { decoded.value };
        let configuration = Object::from_value(value)
            .ok_or_else(|| Status::bad_request("error decoding YAML: the apply configuration is no object"))?;
        let asked_for_version = !configuration.resource_version().is_empty();
        let mut attempt = 0;
        loop {
            let old = self.old_object().await?;
            // Otherwise a version that is written meanwhile would be replaced, and admission would have seen another.
            if asked_for_version
                && old.as_ref().is_some_and(|old| old.resource_version() != configuration.resource_version())
            {
                return Err(self.conflict(MODIFIED));
            }
            let mut pinned = configuration.clone();
            if !asked_for_version || old.is_none() {
                let version = old.as_ref().map_or(NO_VERSION, Object::resource_version);
                if !pinned.set(&["metadata", "resourceVersion"], Value::from(version)) {
                    return Err(Status::bad_request("error decoding YAML: metadata is no object"));
                }
            }
            let answer = self.apply_once(pinned, old, options, exchange).await?;
            attempt += 1;
            let retry =
                !asked_for_version && is_version_conflict(&answer) && attempt < self.pipeline.limits.conflict_retries;
            if !retry {
                return Ok(answer.into_response());
            }
        }
    }

    async fn apply_once(
        &self,
        pinned: Object,
        old: Option<Object>,
        options: &WriteOptions,
        exchange: &mut Exchange,
    ) -> Result<Answer, Status> {
        let mut rehearsal = self.apply_patch(&pinned)?;
        rehearsal.uri = with_dry_run(&rehearsal.uri)?;
        let rehearsed = self.forward_for_json(rehearsal).await?;
        if !rehearsed.status.is_success() {
            return Ok(rehearsed);
        }
        let mut outcome = rehearsed.object()?;
        outcome.settle();
        let (operation, kind) = match &old {
            Some(_) => (Operation::Update, OptionsKind::Update),
            None => (Operation::Create, OptionsKind::Create),
        };
        if operation == Operation::Create {
            self.authorize_create().await?;
        }
        let options = options.as_options_object(kind);
        let mut attributes = self.attributes(operation, Some(outcome.clone()), old.map(Arc::new), options);
        self.admit(&mut attributes, exchange).await?;
        self.validate(&attributes, exchange).await?;
        let mut admitted = attributes.object.unwrap_or_default();
        let mut configuration = pinned;
        if admitted.is_changed() {
            self.pin_version(&mut admitted, &outcome)?;
            extend(configuration.fields_mut(), outcome.fields(), admitted.fields(), schema(self.target.kind()))?;
        }
        self.forward(self.apply_patch(&configuration)?).await
    }

    fn apply_patch(&self, configuration: &Object) -> Result<Outgoing, Status> {
        let mut outgoing =
            self.outgoing(Bytes::from(serde_json::to_vec(configuration).map_err(Status::internal_error)?));
        outgoing.content_type = PatchType::Apply.content_type();
        Ok(outgoing)
    }
}

/// A conflict of versions, not one of field managers.
fn is_version_conflict(answer: &Answer) -> bool {
    let has_no_causes = |status: &Status| status.details.as_ref().is_none_or(|details| details.causes.is_empty());
    is_conflict(answer) && answer.status().is_some_and(|status| has_no_causes(&status))
}

/// The URL of a request that is only to be tried.
pub(super) fn with_dry_run(uri: &Uri) -> Result<Uri, Status> {
    let query = uri.query().unwrap_or_default();
    let already = query_values(query, "dryRun").any(|value| value == "All");
    if already {
        return Ok(uri.clone());
    }
    let separator = if query.is_empty() { "" } else { "&" };
    format!("{}?{query}{separator}dryRun=All", uri.path()).parse().map_err(Status::internal_error)
}

/// Adds to an apply configuration what admission added to the outcome.
///
/// # Errors
/// 501 when admission took something away, or changed a list of which no keys are known: an apply configuration cannot say
/// so.
fn extend(
    configuration: &mut Map<String, Value>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    schema: Option<&'static Type>,
) -> Result<(), Status> {
    if let Some(gone) = before.keys().find(|key| !after.contains_key(*key)) {
        return Err(inexpressible(gone));
    }
    for (key, value) in after {
        let old = before.get(key);
        if old == Some(value) {
            continue;
        }
        let field = schema.and_then(|schema| schema.field(key));
        match (old, value) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                let child = configuration.entry(key).or_insert_with(|| json!({}));
                let child = child.as_object_mut().ok_or_else(|| inexpressible(key))?;
                extend(child, old, new, field.and_then(|field| field.element()))?;
            }
            (Some(Value::Array(old)), Value::Array(new)) => {
                let merge_key = field.and_then(|field| field.list_map_keys().next());
                let item_type = field.and_then(|field| field.element());
                match merge_key {
                    Some(merge_key) => extend_list(configuration, key, old, new, merge_key, item_type)?,
                    None if configuration.get(key).is_some_and(|given| given.as_array() == Some(old)) => {
                        configuration.insert(key.clone(), value.clone());
                    }
                    None => return Err(inexpressible(key)),
                }
            }
            _ => {
                configuration.insert(key.clone(), value.clone());
            }
        }
    }
    Ok(())
}

/// The same for a list whose items are told apart by a key.
fn extend_list(
    configuration: &mut Map<String, Value>,
    field: &str,
    old: &[Value],
    new: &[Value],
    merge_key: &str,
    item_type: Option<&'static Type>,
) -> Result<(), Status> {
    let list = configuration.entry(field).or_insert_with(|| json!([]));
    let list = list.as_array_mut().ok_or_else(|| inexpressible(field))?;
    if [old, new, list.as_slice()].into_iter().any(|items| has_twins(items, merge_key)) {
        // Told apart by more than this key: the change could end up in the wrong item.
        return Err(inexpressible(field));
    }
    let same_key = |a: &Value, b: &Value| a.get(merge_key).is_some() && a.get(merge_key) == b.get(merge_key);
    if old.iter().any(|item| !new.iter().any(|other| same_key(item, other))) {
        return Err(inexpressible(field));
    }
    for item in new {
        let before = old.iter().find(|other| same_key(item, other));
        if before == Some(item) {
            continue;
        }
        let (Some(before), Some(after)) = (before.and_then(Value::as_object), item.as_object()) else {
            list.push(item.clone());
            continue;
        };
        let at = match list.iter().position(|given| same_key(given, item)) {
            Some(at) => at,
            None => {
                list.push(json!({merge_key: item.get(merge_key)}));
                list.len() - 1
            }
        };
        let given = list[at].as_object_mut().ok_or_else(|| inexpressible(field))?;
        extend(given, before, after, item_type)?;
    }
    Ok(())
}

/// Whether two items have the same key.
fn has_twins(items: &[Value], merge_key: &str) -> bool {
    let mut keys: Vec<String> = items.iter().filter_map(|item| item.get(merge_key)).map(Value::to_string).collect();
    keys.sort_unstable();
    keys.windows(2).any(|pair| pair.first() == pair.last())
}

fn inexpressible(field: &str) -> Status {
    Status::not_implemented(&format!(
        "admission changed the field {field:?} in a way that an apply configuration cannot express; apply on the client's side instead"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::GroupVersionKind;

    fn extended(configuration: Value, before: Value, after: Value) -> Result<Value, Status> {
        let mut configuration = configuration.as_object().cloned().unwrap();
        let schema = crate::object::schema::of(&GroupVersionKind::new("", "v1", "Pod"));
        extend(&mut configuration, before.as_object().unwrap(), after.as_object().unwrap(), schema)?;
        Ok(Value::Object(configuration))
    }

    #[test]
    fn adds_fields_to_the_items_that_the_client_named() {
        let outcome = json!({"spec": {"containers": [{"name": "a", "image": "i", "imagePullPolicy": "IfNotPresent"}]}});
        let admitted = json!({"spec": {"containers": [{"name": "a", "image": "i", "imagePullPolicy": "Always"}]}});
        let configuration = json!({"spec": {"containers": [{"name": "a", "image": "i"}]}});
        assert_eq!(extended(configuration, outcome, admitted.clone()).unwrap(), admitted);
    }

    #[test]
    fn names_an_item_that_somebody_else_owns_by_its_key() {
        let outcome = json!({"spec": {"containers": [{"name": "a", "image": "i"}]}});
        let admitted = json!({"spec": {"containers": [{"name": "a", "image": "i", "imagePullPolicy": "Always"}]}});
        assert_eq!(
            extended(json!({"metadata": {}}), outcome, admitted).unwrap(),
            json!({"metadata": {}, "spec": {"containers": [{"name": "a", "imagePullPolicy": "Always"}]}})
        );
    }

    #[test]
    fn refuses_what_an_apply_configuration_cannot_say() {
        let refused =
            extended(json!({}), json!({"metadata": {"labels": {"a": "b"}}}), json!({"metadata": {"labels": {}}}));
        assert_eq!(refused.unwrap_err().code, 501);
    }

    #[test]
    fn refuses_to_guess_which_of_two_items_changed() {
        let ports = |name: Option<&str>| {
            let mut udp = json!({"containerPort": 53, "protocol": "UDP"});
            if let Some(name) = name {
                udp["name"] = name.into();
            }
            let ports = json!([{"containerPort": 53, "protocol": "TCP"}, udp]);
            json!({"spec": {"containers": [{"name": "a", "ports": ports}]}})
        };
        assert_eq!(extended(ports(None), ports(None), ports(Some("dns"))).unwrap_err().code, 501);
    }

    #[test]
    fn asks_for_a_dry_run_once() {
        let with = |uri: &str| with_dry_run(&uri.parse().unwrap()).unwrap().to_string();
        assert_eq!(with("/a?fieldManager=x"), "/a?fieldManager=x&dryRun=All");
        assert_eq!(with("/a"), "/a?dryRun=All");
        assert_eq!(with("/a?dryRun=All"), "/a?dryRun=All");
    }
}
