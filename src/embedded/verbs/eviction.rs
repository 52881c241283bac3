//! The eviction of a pod: `pods/eviction` (`EvictionREST`).

use super::attempts::Attempts;
use super::{delete, write};
use crate::body::Body;
use crate::embedded::http::call::Call;
use crate::embedded::http::{body, respond};
use crate::embedded::store::{Collection, Reads, Store, Writer, key, prefix};
use crate::embedded::strategies::fields::strings;
use crate::embedded::strategies::{metadata, owners, pods};
use crate::kind::GroupVersionKind;
use crate::object::Object;
use crate::object::selector::LabelSelector;
use crate::request::body::{MediaType, OptionsKind};
use crate::status::{Cause, Details, Status, invalid};
use http::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

const BUDGETS: &Collection = &Collection::built_in("policy", "poddisruptionbudgets");
/// `MaxDisruptedPodSize`
const MAX_DISRUPTED_PODS: usize = 2000;
/// The condition that says whether a budget allows disruptions.
const ALLOWED: &str = "DisruptionAllowed";
const VIOLATES: &str = "Cannot evict pod as it would violate the pod's disruption budget.";
const IGNORES_ERRORS: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

/// Evicts a pod, unless its disruption budget forbids it. A controller counts the pods of budgets, and none runs here: the counts are those
/// that clients write.
///
/// # Errors
/// If the pod does not exist, a precondition fails, or the budget allows no disruption.
pub(in crate::embedded) async fn evict(call: &Call) -> Result<Response<Body>, Status> {
    let kind = GroupVersionKind::new("policy", "v1", "Eviction");
    let eviction = body::object(call, &kind)?;
    if eviction.name() != call.info.name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    if eviction.get(&["deleteOptions", IGNORES_ERRORS]) == Some(&Value::Bool(true)) {
        let why = "can not be set for pod eviction, try after removing the option";
        let cause = invalid::invalid(&format!("deleteOptions.{IGNORES_ERRORS}"), "true", why);
        return invalid::status(&kind, &call.info.name, vec![cause]).map_or_else(|| Ok(evicted(call)), Err);
    }
    let text = eviction.get(&["deleteOptions"]).map(Value::to_string).unwrap_or_default();
    let mut options = delete::options(call, text.as_bytes(), MediaType::Json)?;
    options.dry_run |= call.dry_run(OptionsKind::Create)?;
    let mut attempts = Attempts::new(call);
    loop {
        let pod = write::current(call).await.ok_or_else(|| call.not_found())?;
        let budgets = if is_guarded(&pod) { budgets_of(&call.server.store, &pod) } else { Vec::new() };
        if budgets.len() > 1 {
            return Err(of_several_budgets());
        }
        let budget = budgets.into_iter().next().filter(|budget| !is_disrupted(&pod, budget));
        let disrupted = budget.map(|budget| Ok::<_, Status>((disrupted(&budget, pod.name())?, budget))).transpose()?;
        let why = ["EvictionByEvictionAPI", "Eviction API: evicting"];
        let set = |pod: &mut Object| pods::set_condition(pod, "DisruptionTarget", "True", why);
        let eviction = delete::Eviction::new(call, &pod, &options, set)?;
        let is_done = call.transact(|state| {
            let key_of = |budget: &Object| key(budget.namespace(), budget.name());
            let is_changed = |(_, budget): &(Object, Arc<Object>)| !state.has(BUDGETS, &key_of(budget), budget);
            if !state.has(call.collection(), &call.key(), &pod) || disrupted.as_ref().is_some_and(is_changed) {
                return false;
            }
            if let Some((changed, budget)) = disrupted.filter(|_| !options.dry_run) {
                state.put(BUDGETS, &key_of(&budget), changed);
            }
            if !options.dry_run {
                eviction.commit(state, &call.key(), &pod);
            }
            true
        });
        if is_done {
            return Ok(evicted(call));
        }
        attempts.start_over().await?;
    }
}

fn evicted(call: &Call) -> Response<Body> {
    respond::success(call, StatusCode::CREATED, None)
}

/// The Status of a pod with several budgets, which has no reason.
fn of_several_budgets() -> Status {
    let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    Status::failure(500, "", message)
}

/// Whether budgets count for a pod (`canIgnorePDB` is false).
fn is_guarded(pod: &Object) -> bool {
    let phase = pod.str(&["status", "phase"]);
    !matches!(phase, "Succeeded" | "Failed" | "Pending") && !metadata::is_deleting(pod)
}

/// `EvictionREST.getPodDisruptionBudgets`
fn budgets_of(store: &Store, pod: &Object) -> Vec<Arc<Object>> {
    let all = store.objects(BUDGETS, &prefix(pod.namespace())).into_iter().map(|(_, budget)| budget);
    let selects = |budget: &Arc<Object>| {
        let selector = LabelSelector::from_json(budget.get(&["spec", "selector"]));
        selector.is_ok_and(|selector| selector.matches(pod.labels()))
    };
    all.filter(selects).collect()
}

fn count(budget: &Object, field: &str) -> i64 {
    budget.get(&["status", field]).and_then(Value::as_i64).unwrap_or_default()
}

/// Whether a pod is not ready and may be evicted without a disruption of its budget.
fn is_disrupted(pod: &Object, budget: &Object) -> bool {
    let is_ready = |condition: &Value| {
        condition.get("type").is_some_and(|kind| kind == "Ready")
            && condition.get("status").is_some_and(|status| status == "True")
    };
    if pod.items(&["status", "conditions"]).iter().any(is_ready) {
        return false;
    }
    let desired = count(budget, "desiredHealthy");
    budget.str(&["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow"
        || count(budget, "currentHealthy") >= desired && desired > 0
}

/// The budget after a disruption by a pod (`EvictionREST.checkAndDecrement`).
fn disrupted(budget: &Object, pod: &str) -> Result<Object, Status> {
    let name = budget.name();
    let forbidden = |why: &str| Err(Status::forbidden("policy", "poddisruptionbudget", name, why));
    let generation = budget.get(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or_default();
    if count(budget, "observedGeneration") < generation {
        return Err(violates(10, format!("The disruption budget {name} is still being processed by the server.")));
    }
    let allowed = count(budget, "disruptionsAllowed");
    if allowed < 0 {
        return forbidden("pdb disruptions allowed is negative");
    }
    if strings(budget, &["status", "disruptedPods"]).len() > MAX_DISRUPTED_PODS {
        return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
    }
    if allowed == 0 {
        return Err(violates(0, refusal(budget)));
    }
    let mut changed = budget.clone();
    let _ = changed.set(&["status", "disruptionsAllowed"], json!(allowed - 1));
    if allowed == 1 {
        forbid_disruptions(&mut changed);
    }
    let _ = changed.set(&["status", "disruptedPods", pod], Value::from(metadata::now()));
    owners::record_own(&GroupVersionKind::new("policy", "v1", "PodDisruptionBudget"), "status", budget, &mut changed);
    Ok(metadata::complete(changed))
}

/// `pdbhelper.UpdateDisruptionAllowedCondition`, for a budget that allows none.
fn forbid_disruptions(budget: &mut Object) {
    let mut conditions = budget.items(&["status", "conditions"]).to_vec();
    let known = conditions.iter_mut().find(|known| known.get("type").is_some_and(|kind| kind == ALLOWED));
    let is_same = known.as_ref().is_some_and(|known| known.get("status").is_some_and(|status| status == "False"));
    let since = known.as_ref().and_then(|known| known.get("lastTransitionTime")).filter(|_| is_same).cloned();
    let since = since.unwrap_or_else(|| Value::from(metadata::now()));
    let condition = json!({"type": ALLOWED, "status": "False", "reason": "InsufficientPods", "message": "",
        "observedGeneration": count(budget, "observedGeneration"), "lastTransitionTime": since});
    match known {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
    let _ = budget.set(&["status", "conditions"], Value::Array(conditions));
}

/// The reason why a budget allows no disruption.
fn refusal(budget: &Object) -> String {
    let name = budget.name();
    let text =
        |condition: &Value, field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let conditions = budget.items(&["status", "conditions"]);
    let refusing = conditions.iter().find(|condition| text(condition, "type") == ALLOWED);
    let refusing =
        refusing.filter(|condition| text(condition, "status") == "False" && !text(condition, "message").is_empty());
    let (healthy, desired) = (count(budget, "currentHealthy"), count(budget, "desiredHealthy"));
    let currently = format!("The disruption budget {name} does not allow evicting pods currently");
    match refusing {
        Some(condition) if text(condition, "reason") == "SyncFailed" => {
            format!("{currently} because it failed sync: {}", text(condition, "message"))
        }
        _ if healthy <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
        }
        Some(condition) => format!("{currently} ({}): {}", text(condition, "reason"), text(condition, "message")),
        None => currently,
    }
}

fn violates(retry_after_seconds: i32, message: String) -> Status {
    let cause = Cause { reason: "DisruptionBudget".to_owned(), message, field: String::new() };
    let details = Details { causes: vec![cause], retry_after_seconds, ..Details::default() };
    Status::failure(429, "TooManyRequests", VIOLATES).with_details(details)
}
