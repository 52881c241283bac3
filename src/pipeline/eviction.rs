//! Evictions: the checks before the validating phase, and what that phase sees (`EvictionREST.Create`).

use crate::admission::Attributes;
use crate::object::Object;
use crate::status::{Status, invalid};
use serde_json::Value;

const IGNORES_ERRORS: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
const DRY_RUN: [&str; 2] = ["deleteOptions", "dryRun"];

/// Returns the eviction as the validating phase sees it: the options of its deletion have the `dryRun` of the request
/// (`propagateDryRun`). `None` if the eviction has no such options, or its own `dryRun`.
///
/// # Errors
/// If the eviction is of another pod, or its options and those of the request disagree.
pub(super) fn shown(attributes: &Attributes, pod: &str) -> Result<Option<Object>, Status> {
    let Some(eviction) = &attributes.object else { return Ok(None) };
    if eviction.name() != pod {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    if eviction.get(&["deleteOptions", IGNORES_ERRORS]) == Some(&Value::Bool(true)) {
        let why = "can not be set for pod eviction, try after removing the option";
        let cause = invalid::invalid(&format!("deleteOptions.{IGNORES_ERRORS}"), "true", why);
        return invalid::status(&attributes.kind, pod, vec![cause]).map_or(Ok(None), Err);
    }
    let of_request = attributes.options.as_ref().map_or(&[][..], |options| options.items(&["dryRun"]));
    if of_request.is_empty() || eviction.get(&["deleteOptions"]).is_none_or(Value::is_null) {
        return Ok(None);
    }
    match eviction.items(&DRY_RUN) {
        [] => {
            let mut shown = eviction.clone();
            Ok(shown.set(&DRY_RUN, of_request.to_vec().into()).then_some(shown))
        }
        own if own == of_request => Ok(None),
        own => {
            let printed = |values: &[Value]| {
                let values: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
                values.join(" ")
            };
            let (asked, own) = (printed(of_request), printed(own));
            Err(Status::plain(format!("Non-matching dry-run options in request and content: [{asked}] and [{own}]")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::Operation;
    use crate::plugins::checker::attributes;
    use serde_json::json;
    use std::sync::Arc;

    #[test]
    fn the_deletion_is_a_dry_run_if_the_request_is_one() {
        let refused = |code: u16, text: &str| Err((code, text.to_owned()));
        for (options, own, expected) in [
            (json!({"dryRun": ["All"]}), json!({}), Ok(Some(json!({"dryRun": ["All"]})))),
            (
                json!({"dryRun": ["All"]}),
                json!({"gracePeriodSeconds": 5}),
                Ok(Some(json!({"gracePeriodSeconds": 5, "dryRun": ["All"]}))),
            ),
            (json!({"dryRun": ["All"]}), json!({"dryRun": ["All"]}), Ok(None)),
            (json!({"dryRun": ["All"]}), json!(null), Ok(None)),
            (json!({}), json!({}), Ok(None)),
            (json!({}), json!({"dryRun": ["All"]}), Ok(None)),
            (
                json!({"dryRun": ["All"]}),
                json!({"dryRun": ["x", "y"]}),
                refused(500, "Non-matching dry-run options in request and content: [All] and [x y]"),
            ),
            (
                json!({}),
                json!({IGNORES_ERRORS: true}),
                refused(
                    422,
                    "Any \"p\" is invalid: deleteOptions.ignoreStoreReadErrorWithClusterBreakingPotential: Invalid value: true: can not \
                     be set for pod eviction, try after removing the option",
                ),
            ),
        ] {
            let eviction = json!({"metadata": {"name": "p"}, "deleteOptions": own});
            let mut attributes = attributes(Operation::Create, "", "pods", Some(eviction), None);
            attributes.options = Object::from_value(options.clone()).map(Arc::new);
            let shown = shown(&attributes, "p").map_err(|status| (status.code, status.message));
            let shown = shown.map(|shown| shown.map(|shown| shown.get(&["deleteOptions"]).unwrap().clone()));
            assert_eq!(shown, expected, "{options} {own}");
            assert!(super::shown(&attributes, "q").is_err());
        }
    }
}
