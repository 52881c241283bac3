//! What a policy's expressions get wrong about the kinds that it matches, as kube-controller-manager writes it into
//! `status.typeChecking` (`TypeChecker` of kube-apiserver's `plugin/policy/validating`).

use super::environment::{Environment, Table};
use super::messages::{Admission, VARIABLES};
use super::schema::Declared;
use super::types::Type;
use crate::object::GroupVersionKind;
use std::sync::Arc;

/// Kinds of a policy that are looked at, at most: `maxTypesToCheck`.
pub const MAX_KINDS: usize = 10;

/// Checks the expressions of one policy.
#[derive(Debug)]
pub struct TypeChecker {
    kinds: Vec<(GroupVersionKind, Environment)>,
}

impl TypeChecker {
    /// For the kinds that a policy names, whose schemas are known, in order of group, version and kind; of more than
    /// [`MAX_KINDS`] the first. `parameters` is there if the policy has parameters: their schema, if it is known. `variables` are
    /// names and expressions.
    pub fn new<'a>(
        kinds: impl IntoIterator<Item = (GroupVersionKind, Declared)>,
        parameters: Option<Option<&Declared>>,
        variables: impl IntoIterator<Item = (&'a str, &'a str)> + Clone,
    ) -> Self {
        let environment = |kind: &GroupVersionKind, object: &Declared| {
            let mut table = Table::default();
            let object = object.declare(&kind.kind, &mut table);
            // The names that kube-controller-manager makes up are unique; the object's and the parameters' kinds may be the same.
            let parameters =
                parameters.map(|known| known.map_or(Type::Dyn, |known| known.declare("Params", &mut table)));
            let mut messages = Admission::default().with_table(table).with_variables();
            for (name, expression) in variables.clone() {
                let found = declare(messages.clone(), &object, parameters.as_ref()).check(expression);
                messages.add_variable(name, &found.map_or(Type::Dyn, |checked| checked.output().clone()));
            }
            declare(messages, &object, parameters.as_ref())
        };
        let kinds = kinds.into_iter().take(MAX_KINDS);
        Self { kinds: kinds.map(|(kind, object)| (kind.clone(), environment(&kind, &object))).collect() }
    }

    /// The warning about an expression: what is wrong with it for each kind for which something is.
    pub fn warning(&self, expression: &str) -> Option<String> {
        let wrong = self.kinds.iter().filter_map(|(kind, environment)| {
            let error = environment.check(expression).err()?;
            Some(format!("{}/{}, Kind={}: {error}\n", kind.group, kind.version, kind.kind))
        });
        let wrong: Vec<String> = wrong.collect();
        (!wrong.is_empty()).then(|| wrong.join("\n"))
    }
}

fn declare(messages: Admission, object: &Type, parameters: Option<&Type>) -> Environment {
    let environment = Environment::new(Arc::new(messages))
        .variable("object", object.clone())
        .variable("oldObject", object.clone())
        .variable("namespaceObject", Type::object("kubernetes.Namespace"))
        .variable("request", Type::object("kubernetes.AdmissionRequest"))
        .variable("authorizer", Type::opaque("kubernetes.authorization.Authorizer"))
        .variable("variables", Type::object(VARIABLES));
    match parameters {
        Some(parameters) => environment.variable("params", parameters.clone()),
        None => environment,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checker(variables: &[(&str, &str)]) -> TypeChecker {
        let kinds = [("", "v1", "ConfigMap"), ("apps", "v1", "Deployment")].map(|(group, version, kind)| {
            let kind = GroupVersionKind::new(group, version, kind);
            let declared = Declared::of_kind(&kind).unwrap();
            (kind, declared)
        });
        TypeChecker::new(kinds, Some(None), variables.iter().copied())
    }

    #[test]
    fn each_kind_has_its_own_warning() {
        let checker = checker(&[("labels", "object.metadata.labels"), ("broken", "object.nothing")]);
        for fine in [
            "object.metadata.name == oldObject.metadata.name",
            "variables.labels.a == 'b'",
            "variables.broken.x",
            "params.x",
        ] {
            assert_eq!(checker.warning(fine), None, "{fine}");
        }
        let one = "/v1, Kind=ConfigMap: ERROR: <input>:1:7: undefined field 'spec'\n | object.spec.replicas > 1\n | ......^\n";
        assert_eq!(checker.warning("object.spec.replicas > 1").as_deref(), Some(one));
        let both = checker.warning("authorizer.requestResource").unwrap();
        assert!(both.contains("^\n\napps/v1, Kind=Deployment: ERROR"), "{both}");
    }
}
