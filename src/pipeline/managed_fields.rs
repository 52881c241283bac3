//! `metadata.managedFields` during admission: kube-apiserver has brought them up to date before any plugin sees the object.
//!
//! They are shown and taken back again: what is sent on has those that the client sent, as the API server behind keeps the
//! books itself.

use super::write::Write;
use crate::admission::{Attributes, Operation};
use crate::object::managed_fields::{Change, Node, is_too_large, manager_name};
use crate::object::patch::PatchType;
use crate::object::structural::Structural;
use crate::object::typed;
use http::Method;
use http::header::{CONTENT_TYPE, USER_AGENT};
use jiff::Timestamp;
use serde_json::{Value, json};

const FIELD: [&str; 2] = ["metadata", "managedFields"];

/// What is to be undone after a phase.
pub(super) struct Shown {
    sent: Option<Value>,
    shown: Option<Value>,
    was_changed: bool,
}

impl Write<'_> {
    /// Shows them, if a plugin looks at them. An apply has them already: it was tried at the API server.
    pub(super) fn show_managed_fields(&self, attributes: &mut Attributes) -> Option<Shown> {
        attributes.object.as_ref()?;
        let is_apply = self.parts.method == Method::PATCH
            && PatchType::from_content_type(self.header(CONTENT_TYPE)).ok() == Some(PatchType::Apply);
        // Those of a scale are the parent's, which is not at hand.
        if is_apply || self.target.subresource == "scale" || !self.pipeline.chain.looks_at_managed_fields(attributes) {
            return None;
        }
        let kind = self.target.kind();
        let object = attributes.object.as_ref()?;
        let old = match (attributes.operation, &attributes.old_object) {
            (Operation::Update, Some(old)) => (**old).clone().into_value(),
            (Operation::Create, _) => {
                let mut empty = json!({"apiVersion": kind.api_version(), "kind": kind.kind});
                typed::encode(kind, &mut empty);
                empty
            }
            _ => return None,
        };
        let field_manager = attributes.options.as_ref().map(|options| options.str(&["fieldManager"]).to_owned());
        let user_agent = self.header(USER_AGENT).unwrap_or_default();
        let custom = Node::Custom(self.schema.as_deref().and_then(Structural::root));
        let change = Change {
            kind,
            schema: Node::of(kind).unwrap_or(custom),
            has_status: self.target.has_status(),
            subresource: &self.target.subresource,
            manager: &manager_name(&field_manager.unwrap_or_default(), user_agent),
            now: Timestamp::now(),
        };
        let new = object.clone().into_value();
        if is_too_large(&old) || is_too_large(&new) {
            // They are shown as they were sent.
            return None;
        }
        let shown = change.managed_fields(&old, &new);
        let sent = object.get(&FIELD).cloned();
        let was_changed = object.is_changed();
        let object = attributes.object.as_mut()?;
        set(object, shown.clone());
        if !was_changed {
            object.settle();
        }
        Some(Shown { sent, shown, was_changed })
    }
}

impl Shown {
    /// Puts back what the client sent, unless a plugin had its own mind.
    pub(super) fn take_back(self, attributes: &mut Attributes) {
        let Some(object) = &mut attributes.object else { return };
        if object.get(&FIELD) != self.shown.as_ref() {
            return;
        }
        let is_changed = object.is_changed() || self.was_changed;
        set(object, self.sent);
        if !is_changed {
            object.settle();
        }
    }
}

fn set(object: &mut crate::object::Object, value: Option<Value>) {
    match value {
        Some(value) => drop::<bool>(object.set(&FIELD, value)),
        None => drop::<Option<Value>>(object.remove(&FIELD)),
    }
}
