//! SELinux types must be those for containers; a user or role must not be set.

use super::{Violation, texts};
use crate::plugins::pod_security::pod::{Fields, Pod};
use crate::plugins::rules::pod::WrongType;
use std::collections::BTreeSet;

pub(super) fn since_1_0(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    check(pod, &["", "container_t", "container_init_t", "container_kvm_t"])
}

pub(super) fn since_1_31(pod: &Pod<'_>) -> Result<Option<Violation>, WrongType> {
    check(pod, &["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"])
}

fn check(pod: &Pod<'_>, allowed: &[&str]) -> Result<Option<Violation>, WrongType> {
    let mut forbidden = Forbidden::default();
    let by_pod = forbidden.add(pod.security, allowed)?;
    let mut bad = Vec::new();
    for container in pod.containers() {
        let container = container?;
        if forbidden.add(container.security, allowed)? {
            bad.push(container.name()?);
        }
    }
    Ok((by_pod || !bad.is_empty()).then(|| {
        let (setters, what) = (texts::setters(by_pod, &bad), forbidden.text());
        Violation {
            reason: "seLinuxOptions",
            detail: format!("{setters} set forbidden securityContext.seLinuxOptions: {what}"),
        }
    }))
}

/// The forbidden options that are set.
#[derive(Default)]
struct Forbidden<'a> {
    types: BTreeSet<&'a str>,
    user: bool,
    role: bool,
}

impl<'a> Forbidden<'a> {
    /// Adds the forbidden options of a security context. Returns whether there are any.
    fn add(&mut self, security: Fields<'a>, allowed: &[&str]) -> Result<bool, WrongType> {
        let options = security.object("seLinuxOptions")?;
        let (kind, user, role) = (options.text("type")?, options.text("user")?, options.text("role")?);
        let is_allowed = allowed.contains(&kind);
        if !is_allowed {
            self.types.insert(kind);
        }
        self.user |= !user.is_empty();
        self.role |= !role.is_empty();
        Ok(!is_allowed || !user.is_empty() || !role.is_empty())
    }

    fn text(&self) -> String {
        let mut texts = Vec::new();
        if !self.types.is_empty() {
            let word = texts::pluralize("type", "types", self.types.len());
            texts.push(format!("{word} {}", texts::join_quoted(&self.types)));
        }
        if self.user {
            texts.push("user may not be set".to_owned());
        }
        if self.role {
            texts.push("role may not be set".to_owned());
        }
        texts.join("; ")
    }
}
