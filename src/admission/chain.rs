//! The chain: runs the enabled plugins in kube-apiserver's order, phase by phase.

use super::counts::Calls;
use super::metrics::{Accepted, Metrics, Pass, Step};
use super::{Attributes, BuildError, Denial, Operation, Plugin, PluginEnvironment, Spec};
use crate::kind::GroupVersionResource;
use crate::look::listed;
use crate::object::Object;
use crate::removed::Api;
use crate::status::Status;
use prometheus::Histogram;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Instant;

/// The enabled plugins in kube-apiserver's order.
pub struct Chain {
    plugins: Vec<Enabled>,
    /// Which plugins of the whole chain these are, one bit each: a part counts its passes on its own.
    part: u64,
    /// Runs before the plugins in each phase.
    guard: Option<Arc<dyn Plugin>>,
    metrics: Arc<Metrics>,
    accepted: [Accepted<Step>; 2],
}

struct Enabled {
    spec: &'static Spec,
    plugin: Arc<dyn Plugin>,
    accepted: [Accepted<Histogram>; 2],
    calls: Calls,
}

impl Enabled {
    fn new(spec: &'static Spec, plugin: impl Into<Arc<dyn Plugin>>) -> Self {
        Self { spec, plugin: plugin.into(), accepted: Default::default(), calls: Calls::default() }
    }

    /// Whether the plugin handles the operation and the resource of the request.
    fn handles(&self, attributes: &Attributes) -> bool {
        self.spec.handles(attributes) && !self.plugin.leaves_out(attributes.operation)
    }
}

/// A phase of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The mutating phase.
    Admit,
    /// The validating phase.
    Validate,
}

impl Phase {
    fn as_str(self) -> &'static str {
        match self {
            Self::Admit => "admit",
            Self::Validate => "validate",
        }
    }

    fn has(self, spec: &Spec) -> bool {
        match self {
            Self::Admit => spec.phases.mutate(),
            Self::Validate => spec.phases.validate(),
        }
    }

    /// Picks the value for this phase.
    fn of<T>(self, [admit, validate]: &[T; 2]) -> &T {
        match self {
            Self::Admit => admit,
            Self::Validate => validate,
        }
    }
}

impl Chain {
    /// Builds the plugins. `specs` are in chain order; `environment` returns the constructor arguments of each plugin.
    ///
    /// # Errors
    /// If a plugin refuses its configuration.
    pub fn build<'a>(
        specs: &[&'static Spec],
        metrics: Arc<Metrics>,
        environment: impl Fn(&'static Spec) -> PluginEnvironment<'a>,
    ) -> Result<Self, BuildError> {
        let chain = Self::build_quietly(specs, metrics, |spec| Ok((spec.build)(&environment(spec))?.into()))?;
        chain.log_order("mutating", |spec| spec.phases.mutate());
        chain.log_order("validating", |spec| spec.phases.validate());
        Ok(chain)
    }

    /// As [`Self::build`], without a line in the log: for one of many chains, which may have plugins in common.
    ///
    /// # Errors
    /// If a plugin refuses its configuration.
    pub(crate) fn build_quietly(
        specs: &[&'static Spec],
        metrics: Arc<Metrics>,
        plugin: impl Fn(&'static Spec) -> Result<Arc<dyn Plugin>, BuildError>,
    ) -> Result<Self, BuildError> {
        let plugins = specs.iter().map(|&spec| {
            let plugin = plugin(spec).map_err(|why| BuildError::Plugin { plugin: spec.name, why: Box::new(why) })?;
            Ok(Enabled::new(spec, plugin))
        });
        let plugins = plugins.collect::<Result<_, BuildError>>()?;
        Ok(Self { plugins, part: u64::MAX, guard: None, metrics, accepted: Default::default() })
    }

    /// Adds a guard, which runs before the plugins in both phases, whatever the request. It is no plugin: no metric counts it.
    #[must_use]
    pub(crate) fn guarded(self, guard: Box<dyn Plugin>) -> Self {
        Self { guard: Some(guard.into()), ..self }
    }

    /// Returns a chain of those of the plugins that have these names. The plugins keep their state: both chains share them.
    #[must_use]
    pub fn part(&self, names: &[&str]) -> Self {
        let (mut plugins, mut part) = (Vec::new(), 0);
        for (index, enabled) in self.plugins.iter().enumerate().filter(|(_, one)| names.contains(&one.spec.name)) {
            let calls = enabled.calls.shared();
            plugins.push(Enabled { calls, ..Enabled::new(enabled.spec, enabled.plugin.clone()) });
            part |= Asked::bit(index);
        }
        Self { plugins, part, guard: self.guard.clone(), metrics: self.metrics.clone(), accepted: Default::default() }
    }

    fn log_order(&self, phase: &str, takes_part: fn(&Spec) -> bool) {
        let names: Vec<_> = self
            .plugins
            .iter()
            .map(|enabled| enabled.spec)
            .filter(|spec| takes_part(spec))
            .map(|spec| spec.name)
            .collect();
        if !names.is_empty() {
            let order = names.join(",");
            tracing::info!(
                "Loaded {} {phase} admission controller(s) successfully in the following order: {order}.",
                names.len()
            );
        }
    }

    /// Runs the mutating phase: Admit of each plugin in order, and a second pass if a plugin requests it (`newReinvocationHandler`).
    ///
    /// # Errors
    /// If a plugin refuses the request; the chain stops at the first refusal.
    pub async fn admit(&self, attributes: &mut Attributes) -> Result<(), Status> {
        let (started, _running) = (Instant::now(), attributes.context.budget.run());
        let mut result = self.admit_once(attributes).await;
        if result.is_ok() && attributes.reinvocation.requested {
            attributes.reinvocation.is_reinvoke = true;
            result = self.admit_once(attributes).await;
        }
        if result.is_ok() {
            attributes.annotations.publish_changes();
        }
        self.observe(Phase::Admit, attributes.operation, result.is_err(), started);
        result
    }

    /// Runs the plugins for a collection as a whole.
    ///
    /// # Errors
    /// If a plugin refuses the request.
    pub(crate) async fn admit_collection(&self, attributes: &mut Attributes) -> Result<(), Status> {
        for enabled in &self.plugins {
            if enabled.spec.handles(attributes) {
                let admitted = enabled.plugin.admit_collection(attributes).await;
                admitted.map_err(|denial| {
                    let _is_first = attributes.refused_by.set(enabled.spec.name);
                    denial.into_status(attributes)
                })?;
            }
        }
        Ok(())
    }

    async fn admit_once(&self, attributes: &mut Attributes) -> Result<(), Status> {
        if let Some(guard) = &self.guard {
            guard.admit(attributes).await.map_err(|denial| denial.into_status(attributes))?;
        }
        let mut asked = Asked::default();
        let names_changes = attributes.annotations.names_changes();
        let mut before = attributes.object.as_ref().filter(|_| names_changes).cloned();
        for (index, enabled) in self.plugins.iter().enumerate() {
            if enabled.spec.phases.mutate() && enabled.handles(attributes) {
                asked.add(index);
                let started = Instant::now();
                let result = enabled.plugin.admit(attributes).await;
                self.finish(enabled, Phase::Admit, attributes, result, started, &asked)?;
                if let (Some(before), Some(after)) = (&mut before, &attributes.object)
                    && before != after
                {
                    if !enabled.plugin.names_own_changes() {
                        attributes.annotations.changed(enabled.spec.name, None, before, after);
                    }
                    before.clone_from(after);
                }
            }
        }
        self.passed(Phase::Admit, attributes.operation, &asked, self.plugins.len());
        Ok(())
    }

    /// Runs the validating phase: Validate of each plugin in order. The object is unchanged afterwards.
    ///
    /// # Errors
    /// If a plugin refuses the request; the chain stops at the first refusal.
    pub async fn validate(&self, attributes: &mut Attributes) -> Result<(), Status> {
        let (started, _running) = (Instant::now(), attributes.context.budget.run());
        let mut unmarked = None;
        let result = self.validate_once(attributes, &mut unmarked).await;
        if unmarked.is_some() {
            attributes.object = unmarked;
        }
        self.observe(Phase::Validate, attributes.operation, result.is_err(), started);
        result
    }

    /// Runs the phase. If a plugin marks the object, `unmarked` receives the object as it was before.
    async fn validate_once(&self, attributes: &mut Attributes, unmarked: &mut Option<Object>) -> Result<(), Status> {
        if let Some(guard) = &self.guard {
            guard.validate(attributes).await.map_err(|denial| denial.into_status(attributes))?;
        }
        let mut asked = Asked::default();
        for (index, enabled) in self.plugins.iter().enumerate() {
            if enabled.spec.phases.validate() && enabled.handles(attributes) {
                asked.add(index);
                let started = Instant::now();
                let result = enabled.plugin.validate(attributes).await;
                self.finish(enabled, Phase::Validate, attributes, result, started, &asked)?;
                let marks = attributes.marks.take();
                let Some(object) = attributes.object.as_mut().filter(|_| !marks.is_empty()) else { continue };
                unmarked.get_or_insert_with(|| object.clone());
                for (key, value) in marks {
                    // `set` fails if metadata is not an object, which then cannot hold annotations.
                    let _is_marked = object.set(&["metadata", "annotations", key], value.into());
                }
            }
        }
        self.passed(Phase::Validate, attributes.operation, &asked, self.plugins.len());
        Ok(())
    }

    /// The plugins in order, with their calls. `whole` adds what plugins show of webhooks and policies, which all tenants of an API server
    /// share.
    pub(crate) fn look(&self, whole: bool) -> Value {
        let plugins = self.plugins.iter().map(|enabled| {
            let mut shown = Map::from_iter([("name".to_owned(), enabled.spec.name.into())]);
            for phase in [Phase::Admit, Phase::Validate].into_iter().filter(|phase| phase.has(enabled.spec)) {
                shown.insert(phase.as_str().to_owned(), phase.of(enabled.calls.counts()).look());
            }
            let found = if whole { enabled.plugin.look() } else { None };
            shown.extend(
                found
                    .and_then(|found| match found {
                        Value::Object(found) => Some(found),
                        _ => None,
                    })
                    .into_iter()
                    .flatten(),
            );
            Value::Object(shown)
        });
        listed(plugins)
    }

    /// Problems in the objects that plugins read from the cluster.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.plugins.iter().flat_map(|enabled| enabled.plugin.problems()).collect()
    }

    /// Returns whether a plugin may have side effects in the phase.
    pub(crate) fn has_side_effects(&self, phase: Phase, attributes: &Attributes) -> bool {
        let is_asked = |spec: &Spec| phase.has(spec) && spec.handles(attributes);
        self.plugins.iter().any(|enabled| is_asked(enabled.spec) && enabled.plugin.has_side_effects(attributes))
    }

    /// Whether the validating phase of a plugin may read the object as it would be stored.
    pub(crate) fn reads_stored_object(&self, attributes: &Attributes) -> bool {
        let validate = |enabled: &&Enabled| enabled.spec.phases.validate() && enabled.spec.handles(attributes);
        self.plugins.iter().filter(validate).any(|enabled| enabled.plugin.reads_stored_object(attributes))
    }

    /// Whether the mutating phase of a plugin may read `metadata.managedFields`.
    pub(crate) fn reads_managed_fields(&self, attributes: &Attributes) -> bool {
        let mutate = |enabled: &&Enabled| enabled.spec.phases.mutate() && enabled.spec.handles(attributes);
        self.plugins.iter().filter(mutate).any(|enabled| enabled.plugin.reads_managed_fields(attributes))
    }

    /// The API that Kubernetes removed, if objects of this resource are its objects and a plugin reads them.
    pub(crate) fn removed_api(&self, resource: &GroupVersionResource) -> Option<&'static Api> {
        let needs = self.plugins.iter().flat_map(|enabled| enabled.spec.needs);
        needs
            .filter_map(|need| need.removed_api())
            .find(|api| *resource.resource == *api.plural && api.groups().any(|group| *resource.group == *group))
    }

    fn observe(&self, phase: Phase, operation: Operation, rejected: bool, started: Instant) {
        let (elapsed, find) = (started.elapsed(), || self.metrics.step(phase.as_str(), operation, rejected));
        match rejected {
            true => find().observe(elapsed),
            false => phase.of(&self.accepted).of(operation, find).observe(elapsed),
        }
    }

    fn finish(
        &self,
        enabled: &Enabled,
        phase: Phase,
        attributes: &Attributes,
        result: Result<(), Denial>,
        started: Instant,
        asked: &Asked,
    ) -> Result<(), Status> {
        let elapsed = started.elapsed();
        phase.of(enabled.calls.counts()).add(elapsed, result.is_err());
        let (elapsed, operation) = (elapsed.as_secs_f64(), attributes.operation);
        let find = |rejected| self.metrics.controller(enabled.spec.name, phase.as_str(), operation, rejected);
        match result {
            Ok(()) => phase.of(&enabled.accepted).of(operation, || find(false)).observe(elapsed),
            Err(_) => {
                find(true).observe(elapsed);
                let _is_first = attributes.refused_by.set(enabled.spec.name);
                self.passed(phase, operation, asked, asked.end);
            }
        }
        result.map_err(|denial| denial.into_status(attributes))
    }

    /// Counts a pass of the phase over the first `reached` plugins.
    fn passed(&self, phase: Phase, operation: Operation, asked: &Asked, reached: usize) {
        let pass = Pass { part: self.part, step: phase.as_str(), operation, asked: asked.bits, reached };
        self.metrics.passed(pass, || {
            let is_left_out = |index: usize, one: &Enabled| {
                let handles = one.spec.operations.contain(operation) && !one.plugin.leaves_out(operation);
                !asked.contains(index) && phase.has(one.spec) && handles
            };
            let plugins = self.plugins.iter().take(reached).enumerate();
            plugins.filter(|(index, one)| is_left_out(*index, one)).map(|(_, one)| one.spec.name).collect()
        });
    }
}

/// The set of plugins that the chain called in a pass.
#[derive(Default)]
struct Asked {
    bits: u64,
    /// The index after the last called plugin.
    end: usize,
}

impl Asked {
    fn add(&mut self, index: usize) {
        self.bits |= Self::bit(index);
        self.end = index + 1;
    }

    fn contains(&self, index: usize) -> bool {
        self.bits & Self::bit(index) != 0
    }

    fn bit(index: usize) -> u64 {
        1u64.checked_shl(index as u32).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{Annotations, FrontEndSupport, Level, Operations, Phases, Resources};
    use crate::plugins::checker::attributes;
    use async_trait::async_trait;
    use serde_json::json;

    /// Counts the calls in the object, and requests a second pass in each call.
    struct Counter;

    #[async_trait]
    impl Plugin for Counter {
        async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
            attributes.reinvocation.requested = true;
            let object = attributes.object.as_mut().expect("an object");
            let count = object.get(&["count"]).and_then(|count| count.as_u64()).unwrap_or(0);
            assert!(object.set(&["count"], json!(count + 1)));
            Ok(())
        }

        async fn validate(&self, _: &Attributes) -> Result<(), Denial> {
            Err(Denial::forbidden("no"))
        }
    }

    static SPEC: Spec = named("Counter");

    const fn named(name: &'static str) -> Spec {
        Spec {
            name,
            default_on: false,
            phases: Phases::Both,
            operations: Operations::CREATE,
            resources: Resources::Only(&[("", "pods", "")]),
            needs: &[],
            configuration: None,
            removed: None,
            front_end: FrontEndSupport::Full,
            about: "",
            build: |_| Ok(Box::new(Counter)),
        }
    }

    fn chain() -> Chain {
        let metrics = Arc::new(Metrics::new(&crate::metrics::Registry::new()).unwrap());
        let plugins = vec![Enabled::new(&SPEC, Arc::new(Counter) as Arc<dyn Plugin>)];
        Chain { plugins, part: u64::MAX, guard: None, metrics, accepted: Default::default() }
    }

    #[tokio::test]
    async fn runs_the_mutating_phase_at_most_twice() {
        let mut attributes = attributes(Operation::Create, "", "pods", Some(json!({"metadata": {}})), None);
        chain().admit(&mut attributes).await.unwrap();
        assert_eq!(attributes.object.unwrap().get(&["count"]), Some(&json!(2)));
    }

    #[tokio::test]
    async fn the_changes_of_plugins_are_annotated_if_an_event_has_them() {
        for (published, is_wanted, expected) in [
            (Some(Level::Metadata), true, Some(r#"[{"plugin":"Counter","paths":["/count"]}]"#)),
            (Some(Level::Metadata), false, None),
            (None, true, None),
        ] {
            let mut attributes = attributes(Operation::Create, "", "pods", Some(json!({"metadata": {}})), None);
            attributes.annotations = Annotations::published_up_to(published).naming_changes(is_wanted);
            assert_eq!(attributes.annotations.names_changes(), expected.is_some(), "nothing is compared otherwise");
            chain().admit(&mut attributes).await.unwrap();
            let value = attributes.annotations.take().pop().map(|(_, value, _)| value);
            assert_eq!(value.as_deref(), expected);
        }
    }

    #[tokio::test]
    async fn asks_no_plugin_about_what_its_facts_leave_out() {
        let object = Some(json!({"metadata": {}}));
        let mut attributes = attributes(Operation::Update, "", "pods", object.clone(), object.clone());
        chain().admit(&mut attributes).await.unwrap();
        chain().validate(&mut attributes).await.unwrap();
        assert_eq!(attributes.object.map(crate::object::Object::into_value), object);
    }

    #[tokio::test]
    async fn a_plugin_of_the_operation_is_counted_for_every_resource() {
        let registry = crate::metrics::Registry::new();
        let chain = Chain { metrics: Arc::new(Metrics::new(&registry).unwrap()), ..chain() };
        for (operation, resource) in
            [(Operation::Create, "pods"), (Operation::Create, "secrets"), (Operation::Update, "secrets")]
        {
            let mut attributes = attributes(operation, "", resource, Some(json!({"metadata": {}})), None);
            chain.admit(&mut attributes).await.unwrap();
        }
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let counts =
            text.lines().filter(|line| line.starts_with("apiserver_admission_controller") && line.contains("_count"));
        // Two calls for the pod, since the plugin requests a second pass.
        let want = r#"apiserver_admission_controller_admission_duration_seconds_count{name="Counter",operation="CREATE",rejected="false",type="admit"} 3"#;
        assert_eq!(counts.collect::<Vec<_>>(), [want]);
        assert!(crate::plugins::ALL.len() <= 64, "Asked has a bit for each");
    }

    #[tokio::test]
    async fn a_part_runs_and_counts_its_plugins_alone() {
        static OTHER: Spec = named("Other");
        let registry = crate::metrics::Registry::new();
        let of = |spec| Enabled::new(spec, Arc::new(Counter) as Arc<dyn Plugin>);
        let (plugins, metrics) = (vec![of(&SPEC), of(&OTHER)], Arc::new(Metrics::new(&registry).unwrap()));
        let chain = Chain { plugins, metrics, ..chain() };
        for chain in [chain.part(&["Other"]), chain.part(&["Counter"]), chain.part(&[])] {
            let mut attributes = attributes(Operation::Create, "", "secrets", Some(json!({"metadata": {}})), None);
            chain.admit(&mut attributes).await.unwrap();
        }
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let counts = text.lines().filter(|line| {
            line.starts_with("apiserver_admission_controller") && line.contains("_count") && line.ends_with(" 1")
        });
        assert_eq!(counts.count(), 2, "{text}");
    }

    /// Marks the object, and refuses an object that is marked.
    struct Marker;

    #[async_trait]
    impl Plugin for Marker {
        async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
            let object = attributes.object.as_ref().expect("an object");
            match object.get(&["metadata", "annotations"]) {
                Some(marks) => Err(Denial::forbidden(marks.to_string())),
                None => {
                    attributes.marks.add("example.com/a", "b");
                    Ok(())
                }
            }
        }
    }

    #[tokio::test]
    async fn later_plugins_see_marks_that_are_not_stored() {
        let object = Some(json!({"metadata": {"name": "a"}}));
        let mut attributes = attributes(Operation::Create, "", "pods", object.clone(), None);
        let mut chain = chain();
        chain.plugins = [Marker, Marker].map(|one| Enabled::new(&SPEC, Arc::new(one) as Arc<dyn Plugin>)).into();
        let refusal = chain.validate(&mut attributes).await.unwrap_err();
        assert_eq!(refusal.message, r#"pods "a" is forbidden: {"example.com/a":"b"}"#);
        assert_eq!(attributes.object.map(Object::into_value), object);
    }

    #[tokio::test]
    async fn turns_a_denial_into_a_status() {
        let mut attributes = attributes(Operation::Create, "", "pods", Some(json!({"metadata": {"name": "a"}})), None);
        assert_eq!(chain().validate(&mut attributes).await.unwrap_err().message, "pods \"a\" is forbidden: no");
    }
}
