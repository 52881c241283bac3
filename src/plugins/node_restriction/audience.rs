//! The audience of a requested token: an audience that the pod's volumes use, or that the node may request for any pod.

use super::drivers::{self, UnknownDriver};
use super::{NodeRestriction, not_found, question};
use crate::admission::Attributes;
use crate::cluster::Cluster;
use crate::go_text::go_quote;
use crate::status::invalid::aggregate;
use k8s_openapi::api::core::v1::{Pod, Volume};
use k8s_openapi::api::storage::v1::CSIDriver;

/// The reason why a node may not request a token of an audience, with kube-apiserver's text.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct RefusedAudience(String);

/// `validateNodeServiceAccountAudience`.
pub(super) async fn check(
    plugin: &NodeRestriction,
    pod: &Pod,
    audiences: &[String],
    attributes: &Attributes,
) -> Result<(), RefusedAudience> {
    let audience = match audiences {
        [] => "",
        [audience] => audience,
        _ => return Err(RefusedAudience("node may only request 0 or 1 audiences".to_owned())),
    };
    if is_asked_for(&plugin.cluster, pod, audience)
        .map_err(|why| RefusedAudience(format!("error validating audience {}: {why}", go_quote(audience))))?
    {
        return Ok(());
    }
    let question = question(attributes, "request-serviceaccounts-token-audience", audience, &attributes.name);
    let (audience, user) = (go_quote(audience), &attributes.context.user.username);
    let why = match (attributes.context.authorizer.check(&question).await, plugin.since_1_37) {
        (Ok(decision), _) if decision.allowed => return Ok(()),
        (Ok(_), true) => format!("{user} is not authorized to request tokens for audience {audience}"),
        (Ok(_), false) => format!(
            "audience {audience} not found in pod spec volume, {user} is not authorized to request tokens for this audience"
        ),
        (Err(why), true) => format!("error authorizing {user} to request tokens for audience {audience}: {why}"),
        (Err(why), false) => format!(
            "audience {audience} not found in pod spec volume, error authorizing {user} to request tokens for this audience: {why}"
        ),
    };
    Err(RefusedAudience(why))
}

/// Whether a volume of the pod uses tokens of the audience (`podReferencesAudience`).
///
/// # Errors
/// If no readable volume uses the audience, and the driver of a volume cannot be determined.
fn is_asked_for(cluster: &Cluster, pod: &Pod, audience: &str) -> Result<bool, UnknownDriver> {
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    let mut errors: Vec<String> = Vec::new();
    for volume in volumes {
        if is_projected(volume, audience) {
            return Ok(true);
        }
        let of_driver = drivers::of_volume(cluster, pod, volume).and_then(|driver| match driver {
            Some(driver) => driver_asks_for(cluster, &driver, audience),
            None => Ok(false),
        });
        match of_driver {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(UnknownDriver(why)) => errors.push(why),
        }
    }
    aggregate(errors).map_or(Ok(false), |why| Err(UnknownDriver(why)))
}

fn is_projected(volume: &Volume, audience: &str) -> bool {
    let sources = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
    let mut tokens = sources.filter_map(|source| source.service_account_token.as_ref());
    tokens.any(|token| token.audience.as_deref().unwrap_or_default() == audience)
}

/// `csiDriverHasAudience`.
fn driver_asks_for(cluster: &Cluster, driver: &str, audience: &str) -> Result<bool, UnknownDriver> {
    let Some(driver) = cluster.find::<CSIDriver>("", driver) else {
        return Err(UnknownDriver(not_found("storage.k8s.io", "csidriver", driver).message));
    };
    Ok(driver.spec.token_requests.iter().flatten().any(|request| request.audience == audience))
}
