//! The names that are reserved for objects from files (`validation.ValidateStaticSuffix`).

use super::{GATE, SUFFIX};
use crate::admission::{Attributes, Operation};
use crate::config::FeatureGates;
use crate::go_text::go_quote;
use crate::status::{Cause, Status};

/// The resources whose objects may come from files.
const RESOURCES: [&str; 6] = [
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
];

/// Whether the names are reserved, which is so if objects may come from files.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReservedNames(bool);

impl ReservedNames {
    /// The setting of the feature gate.
    pub(crate) fn new(gates: &FeatureGates) -> Self {
        Self(gates.is_on(GATE))
    }

    /// Checks that a new object does not have a reserved name. The mutating phase may set the name, so the check runs after the phase.
    ///
    /// # Errors
    /// 422 if the name is reserved.
    pub(crate) fn check(self, attributes: &Attributes) -> Result<(), Status> {
        let Attributes { operation, kind, resource, subresource, object, .. } = attributes;
        let name = object.as_ref().map(|object| object.name()).unwrap_or_default();
        let is_new = *operation == Operation::Create && subresource.is_empty();
        let is_meant = resource.group == "admissionregistration.k8s.io" && RESOURCES.contains(&&*resource.resource);
        if !(self.0 && is_new && is_meant && name.ends_with(SUFFIX)) {
            return Ok(());
        }
        let message = format!(
            "Invalid value: {}: names ending with {} are reserved for static manifest-based configurations and cannot be \
             managed via the API",
            go_quote(name),
            go_quote(SUFFIX)
        );
        let text = format!("metadata.name: {message}");
        let cause = Cause { reason: "FieldValueInvalid".into(), message, field: "metadata.name".into() };
        Err(Status::invalid(&kind.group, &kind.kind, name, &text, vec![cause]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::{GroupVersionKind, GroupVersionResource};
    use crate::object::Object;
    use crate::webhooks::tests::{configmap, create};
    use serde_json::json;

    fn named(operation: Operation, group: &str, resource: &str, subresource: &str, name: &str) -> Attributes {
        Attributes {
            operation,
            kind: GroupVersionKind::new(group, "v1", "ValidatingAdmissionPolicy"),
            resource: GroupVersionResource::new(group, "v1", resource),
            subresource: subresource.into(),
            object: Object::from_value(json!({"metadata": {"name": name}})),
            ..create(configmap())
        }
    }

    #[test]
    fn no_new_object_gets_a_reserved_name() {
        let on = ReservedNames::new(&FeatureGates::parse("ManifestBasedAdmissionControlConfig=true").unwrap());
        let off = ReservedNames::new(&FeatureGates::default());
        let (group, policies, name) =
            ("admissionregistration.k8s.io", "validatingadmissionpolicies", "p.static.k8s.io");
        for resource in RESOURCES {
            let attributes = named(Operation::Create, group, resource, "", name);
            let status = on.check(&attributes).unwrap_err();
            assert_eq!((status.code, &*status.reason), (422, "Invalid"), "{resource}");
            assert_eq!(
                status.message,
                "ValidatingAdmissionPolicy.admissionregistration.k8s.io \"p.static.k8s.io\" is invalid: metadata.name: Invalid value: \
                 \"p.static.k8s.io\": names ending with \".static.k8s.io\" are reserved for static manifest-based configurations and \
                 cannot be managed via the API"
            );
            assert_eq!(off.check(&attributes), Ok(()), "{resource}");
        }
        for (operation, group, resource, subresource, name) in [
            (Operation::Update, group, policies, "", name),
            (Operation::Delete, group, policies, "", name),
            (Operation::Create, group, policies, "status", name),
            (Operation::Create, group, policies, "", "p.static.k8s.io.x"),
            (Operation::Create, group, policies, "", ""),
            (Operation::Create, group, "others", "", name),
            (Operation::Create, "lab.dev", policies, "", name),
        ] {
            let attributes = named(operation, group, resource, subresource, name);
            assert_eq!(on.check(&attributes), Ok(()), "{operation:?} {group} {resource}/{subresource} {name}");
        }
    }
}
