//! The guard, which refuses writes that did not go through the proxy.

use super::{Config, Connected, Finding, at, get};
use serde_json::Value;

const CHECK: &str = "guard";
/// The name of the policy and of its binding.
pub(crate) const NAME: &str = "kube-admission-proxy-guard";

pub(super) async fn findings(config: &Config, connected: &Connected) -> Vec<Finding> {
    // With a front end alone, every write is reviewed whichever way it comes.
    if config.front_end.as_ref().is_some_and(|front_end| front_end.is_alone) {
        return Vec::new();
    }
    let path = |resource: &str| format!("/apis/admissionregistration.k8s.io/v1/{resource}/{NAME}");
    let read = (
        get(&connected.client, &path("validatingadmissionpolicies")).await,
        get(&connected.client, &path("validatingadmissionpolicybindings")).await,
    );
    let finding = match read {
        (Ok(policy), Ok(binding)) => judge(config.upstream.admitted_mark(), policy.as_ref(), binding.as_ref()),
        (Err(why), _) | (_, Err(why)) => {
            let advice = "allow the proxy to get validatingadmissionpolicies and their bindings";
            Finding::warning(CHECK, format!("not told: {why}"), advice)
        }
    };
    vec![finding]
}

fn judge(mark: Option<&str>, policy: Option<&Value>, binding: Option<&Value>) -> Finding {
    let print = "apply the output of \"kube-admission-proxy print guard\"";
    let (Some(policy), Some(binding)) = (policy, binding) else {
        let missing = if policy.is_none() { "ValidatingAdmissionPolicy" } else { "ValidatingAdmissionPolicyBinding" };
        return match mark {
            Some(_) => {
                Finding::failure(CHECK, format!("--admitted-mark is set, and there is no {missing} {NAME}"), print)
            }
            None if policy.is_some() => Finding::warning(CHECK, format!("there is no {missing} {NAME}"), print),
            None => {
                Finding::warning(CHECK, "none: whoever reaches the API server itself writes without admission", print)
            }
        };
    };
    let validations = at(policy, "/spec/validations").to_string();
    match mark {
        None => Finding::failure(
            CHECK,
            "on, and --admitted-mark is not set: writes through the proxy are refused",
            "set --admitted-mark",
        ),
        // The expression is a string in JSON, with the mark as a string in CEL.
        Some(mark) if !validations.contains(&format!("[\\\"{mark}\\\"]")) => {
            let found = format!("of another mark than {mark:?}: writes through the proxy are refused");
            Finding::failure(CHECK, found, print)
        }
        Some(_) if at(binding, "/spec/policyName") != NAME => {
            Finding::warning(CHECK, "the binding is of another policy", print)
        }
        Some(_) => {
            let actions = at(binding, "/spec/validationActions").as_array();
            match actions.is_some_and(|actions| actions.iter().any(|action| action == "Deny")) {
                true => Finding::ok(CHECK, "on: direct writes are refused"),
                false => {
                    let found = format!(
                        "direct writes are not refused: validationActions is {}",
                        at(binding, "/spec/validationActions")
                    );
                    Finding::warning(CHECK, found, "set validationActions to [Deny] once no client writes directly")
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::doctor::Outcome;
    use serde_json::json;

    #[test]
    fn the_guard_is_complete_with_policy_binding_and_mark() {
        let policy =
            json!({"spec": {"validations": [{"expression": "request.userInfo.extra[\"k\"] == [\"ns/proxy\"]"}]}});
        let binding = |actions: &[&str]| json!({"spec": {"policyName": NAME, "validationActions": actions}});
        let (deny, warn) = (binding(&["Deny"]), binding(&["Warn"]));
        for (mark, policy, binding, outcome) in [
            (None, None, None, Outcome::Warning),
            (Some("ns/proxy"), None, None, Outcome::Failure),
            (Some("ns/proxy"), Some(&policy), None, Outcome::Failure),
            (Some("ns/proxy"), Some(&policy), Some(&deny), Outcome::Ok),
            (Some("ns/proxy"), Some(&policy), Some(&warn), Outcome::Warning),
            (Some("ns/other"), Some(&policy), Some(&deny), Outcome::Failure),
            (None, Some(&policy), Some(&deny), Outcome::Failure),
        ] {
            assert_eq!(judge(mark, policy, binding).outcome, outcome, "{mark:?} {binding:?}");
        }
    }
}
