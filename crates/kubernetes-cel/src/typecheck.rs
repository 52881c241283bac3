//! Type checks the expressions of a policy against the kinds that it matches, as kube-controller-manager writes the warnings into
//! `status.typeChecking` (`TypeChecker` of kube-apiserver's `plugin/policy/validating`).

use super::environment::Environment;
use super::estimate::Range;
use super::message_types::Table;
use super::messages::{AdmissionTypes, VARIABLES};
use super::release::Release;
use super::schema::Declared;
use super::types::Type;
use kubernetes_object::kind::{GroupVersionKind, GroupVersionResource};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The number of a policy's kinds that are checked: `maxTypesToCheck`.
pub const MAX_KINDS: usize = 10;

/// Checks the expressions of one policy.
#[derive(Debug)]
pub struct TypeChecker<'p> {
    kinds: Vec<Typed>,
    parameters: Option<&'p Declared>,
}

/// The type of `params` in expressions.
#[derive(Clone, Copy, Debug)]
pub struct ParameterType<'p> {
    /// The name of the parameters' kind.
    pub kind: &'p str,
    /// The schema of the parameters, if it is known.
    pub schema: Option<&'p Declared>,
}

/// A kind, and the environment of expressions for objects of this kind.
#[derive(Debug)]
struct Typed {
    kind: GroupVersionKind,
    object: Declared,
    environment: Environment,
}

/// The kinds that a policy's `resourceRules` name, in order of group, version and kind; skips wildcards and subresources (`typesToCheck`).
/// `kinds_of` returns the kinds of a resource; for the core group it must search all groups, as Kubernetes does.
pub fn kinds_of_rules(
    rules: &[Value],
    kinds_of: impl Fn(&GroupVersionResource) -> Vec<GroupVersionKind>,
) -> Vec<GroupVersionKind> {
    let mut found = BTreeSet::new();
    for rule in rules {
        let texts = |field: &str| {
            let texts = rule.get(field).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
            // A duplicate counts twice.
            let mut texts: Vec<&str> = texts.collect();
            texts.sort_unstable();
            texts
        };
        let (groups, versions) = (texts("apiGroups"), texts("apiVersions"));
        if groups.iter().chain(&versions).any(|text| text.contains('*')) {
            continue;
        }
        let resources = texts("resources").into_iter().filter(|resource| !resource.contains(['*', '/']));
        let resources: Vec<&str> = resources.collect();
        let named = groups.iter().flat_map(|group| versions.iter().map(move |version| (group, version)));
        let named = named.flat_map(|(group, version)| {
            resources.iter().map(move |resource| GroupVersionResource::new(*group, *version, *resource))
        });
        let kinds: Vec<GroupVersionKind> = named.flat_map(|resource| kinds_of(&resource)).take(MAX_KINDS).collect();
        let is_enough = kinds.len() == MAX_KINDS;
        found.extend(kinds);
        if is_enough {
            break;
        }
    }
    found.into_iter().collect()
}

impl<'p> TypeChecker<'p> {
    /// Makes a checker of a release for the kinds of a policy with known schemas: [`kinds_of_rules`]. `parameters` is `None` if the policy
    /// has no parameters. `variables` are names and expressions.
    pub fn new<'a>(
        release: Release,
        kinds: impl IntoIterator<Item = (GroupVersionKind, Declared)>,
        parameters: Option<ParameterType<'p>>,
        variables: impl IntoIterator<Item = (&'a str, &'a str)> + Clone,
    ) -> Self {
        let environment = |kind: &GroupVersionKind, object: &Declared| {
            let mut table = Table::default();
            let object = object.declare(&kind.kind, &mut table);
            // The unique names of kube-controller-manager end in numbers; the object and the parameters never have one type.
            let parameters = parameters.map(|ParameterType { kind: name, schema }| {
                let unique = if *name == kind.kind { format!("{name}2") } else { name.to_owned() };
                schema.map_or(Type::Dyn, |schema| schema.declare(&unique, &mut table))
            });
            let mut messages = AdmissionTypes::default().with_table(table).with_variables();
            for (name, expression) in variables.clone() {
                let found = declare(release, messages.clone(), &object, parameters.as_ref()).check(expression);
                messages.add_variable(name, &found.map_or(Type::Dyn, |checked| checked.output().clone()));
            }
            declare(release, messages, &object, parameters.as_ref())
        };
        let typed = |(kind, object): (GroupVersionKind, Declared)| Typed {
            environment: environment(&kind, &object),
            kind,
            object,
        };
        Self { kinds: kinds.into_iter().map(typed).collect(), parameters: parameters.and_then(|known| known.schema) }
    }

    /// The cost of an expression with objects of these kinds, of any size that fits a request; `None` if the expression is valid for no
    /// kind.
    pub fn estimate(&self, expression: &str) -> Option<Range> {
        let estimate = |Typed { object, environment, .. }: &Typed| {
            let checked = environment.check(expression).ok()?;
            let sizes = |path: &[&str]| match path.split_first()? {
                (&"object" | &"oldObject", rest) => object.size_at(rest),
                (&"params", rest) => self.parameters?.size_at(rest),
                _ => None,
            };
            environment.estimate(&checked, &sizes).ok()
        };
        self.kinds.iter().filter_map(estimate).reduce(Range::union)
    }

    /// The warning about an expression: its errors for each kind that has any.
    pub fn warning(&self, expression: &str) -> Option<String> {
        let wrong = self.kinds.iter().filter_map(|Typed { kind, environment, .. }| {
            let error = environment.check(expression).err()?;
            Some(format!("{}/{}, Kind={}: {error}\n", kind.group, kind.version, kind.kind))
        });
        let wrong: Vec<String> = wrong.collect();
        (!wrong.is_empty()).then(|| wrong.join("\n"))
    }
}

fn declare(release: Release, messages: AdmissionTypes, object: &Type, parameters: Option<&Type>) -> Environment {
    let environment = Environment::of(release.stored(), Arc::new(messages))
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

    fn checker(variables: &[(&str, &str)]) -> TypeChecker<'static> {
        let kinds = [("", "v1", "ConfigMap"), ("apps", "v1", "Deployment")].map(|(group, version, kind)| {
            let kind = GroupVersionKind::new(group, version, kind);
            let declared = Declared::of_kind(&kind).unwrap();
            (kind, declared)
        });
        let parameters = ParameterType { kind: "Foo", schema: None };
        TypeChecker::new(Release::default(), kinds, Some(parameters), variables.iter().copied())
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
