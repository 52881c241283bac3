//! Validates the Pod Security labels of namespaces, and warns about existing pods that violate a stricter policy.

use super::pod::Fields;
use super::policy::{AUDIT, ENFORCE, LabelFault, Level, Policy, WARN, aggregate, policy_of};
use super::{PodSecurity, refusal};
use crate::admission::{Attributes, Denial, Operation};
use crate::object::Object;
use crate::plugins::rules::pod::WrongType;
use crate::status::Status;

impl PodSecurity {
    /// `Admission.ValidateNamespace`.
    pub(super) async fn validate_namespace(&self, attributes: &Attributes) -> Result<(), Denial> {
        if !attributes.subresource.is_empty() {
            return Ok(());
        }
        let undecodable = |text: &str| refusal(attributes, Status::bad_request(text), None);
        let new = Labels::read(attributes.object.as_ref());
        let new = new.map_err(|WrongType| undecodable("failed to decode namespace"))?;
        let (policy, faults) = self.policy_of_labels(&new);
        if attributes.operation == Operation::Create {
            if !faults.is_empty() {
                return Err(invalid(attributes, &faults));
            }
            self.warn_of_exemption(attributes, &policy, &new);
            return Ok(());
        }
        let old = Labels::read(attributes.old_object.as_deref());
        let old = old.map_err(|WrongType| undecodable("failed to decode  old namespace"))?;
        let (old_policy, old_faults) = self.policy_of_labels(&old);
        // Old faults may stay unchanged.
        if !faults.is_empty() && faults != old_faults {
            return Err(invalid(attributes, &faults));
        }
        let (enforce, old_enforce) = (policy.enforce, old_policy.enforce);
        let is_relaxed = enforce.version == old_enforce.version && enforce.level <= old_enforce.level;
        if enforce == old_enforce || enforce.level == Level::Privileged || is_relaxed {
            return Ok(());
        }
        if self.is_exempt_namespace(&attributes.namespace) {
            self.warn_of_exemption(attributes, &policy, &new);
        } else {
            self.warn_of_existing_pods(attributes, new.name, enforce).await;
        }
        Ok(())
    }

    fn policy_of_labels(&self, namespace: &Labels<'_>) -> (Policy, Vec<LabelFault>) {
        policy_of(|label| namespace.find(label), &self.configuration.defaults)
    }

    /// Warns that labels have no effect because the namespace is exempt (`exemptNamespaceWarning`).
    fn warn_of_exemption(&self, attributes: &Attributes, policy: &Policy, namespace: &Labels<'_>) {
        let asks_for_nothing = policy.is_fully_privileged() || policy.is_equivalent(&self.configuration.defaults);
        if asks_for_nothing || !self.is_exempt_namespace(&attributes.namespace) {
            return;
        }
        let modes = [(ENFORCE, policy.enforce), (AUDIT, policy.audit), (WARN, policy.warn)];
        let asked = modes.into_iter().filter(|(labels, policy)| {
            let is_set = namespace.find(labels.level).is_some() || namespace.find(labels.version).is_some();
            is_set && policy.level != Level::Privileged
        });
        let asked: Vec<String> = asked.map(|(labels, policy)| format!("{}={policy}", labels.mode)).collect();
        attributes.context.warnings.add(format!(
            "namespace {:?} is exempt from Pod Security, and the policy ({}) will be ignored",
            namespace.name,
            asked.join(", ")
        ));
    }
}

/// A Namespace's name, and those of its labels that the plugin reads.
struct Labels<'a> {
    name: &'a str,
    found: [(&'static str, Option<&'a str>); 6],
}

impl<'a> Labels<'a> {
    fn read(namespace: Option<&'a Object>) -> Result<Self, WrongType> {
        let metadata = Fields::of_map(namespace.ok_or(WrongType)?.fields()).object("metadata")?;
        let labels = metadata.object("labels")?;
        let mut found = [ENFORCE.level, ENFORCE.version, AUDIT.level, AUDIT.version, WARN.level, WARN.version]
            .map(|name| (name, None));
        for (name, value) in &mut found {
            *value = labels.entry(name)?;
        }
        Ok(Self { name: metadata.text("name")?, found })
    }

    fn find(&self, label: &str) -> Option<&'a str> {
        self.found.iter().find(|(name, _)| *name == label).and_then(|(_, value)| *value)
    }
}

/// A 422 with a cause for each invalid label.
fn invalid(attributes: &Attributes, faults: &[LabelFault]) -> Denial {
    let causes = faults.iter().map(LabelFault::cause).collect();
    let kind = &attributes.kind;
    Status::invalid(&kind.group, &kind.kind, &attributes.name, &aggregate(faults), causes).into()
}
