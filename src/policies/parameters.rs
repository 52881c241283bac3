//! The parameters with which a policy is evaluated for a binding (`generic.CollectParams`).

use super::binding::ParameterReference;
use super::misconfigured::Misconfigured;
use super::policy::{ParameterKind, UnusableKind};
use crate::cluster::{Parameter, Parameters, UnreadParameter};
use crate::status::Status;
use crate::user::UserInfo;
use std::fmt::Display;
use std::sync::Arc;

/// The parameters of one binding; a policy is evaluated once with each, or once without.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Collected {
    /// `params` is null.
    None,
    /// These parameters; without any, the policy is not evaluated.
    Some(Vec<Arc<Parameter>>),
}

/// Checks that the kind of a policy's parameters can be used.
///
/// # Errors
/// If the API server does not serve the kind.
pub(super) async fn check_kind(parameters: Option<&Result<Arc<Parameters>, UnusableKind>>) -> Result<(), UnusableKind> {
    match parameters {
        None => Ok(()),
        Some(Err(why)) => Err(why.clone()),
        Some(Ok(parameters)) => match parameters.is_namespaced().await {
            Some(_) => Ok(()),
            None => Err(UnusableKind::Unknown(parameters.kind().clone())),
        },
    }
}

/// The reason why there are no parameters.
#[derive(Debug)]
pub(super) enum Uncollected {
    /// A configuration error; the policy's failurePolicy decides.
    Misconfigured(Misconfigured),
    /// The parameters are unknown, which cannot happen in kube-apiserver. The request is rejected whatever the failurePolicy:
    /// objects of other users must not switch a policy off.
    Unusable(Status),
}

impl From<Misconfigured> for Uncollected {
    fn from(why: Misconfigured) -> Self {
        Self::Misconfigured(why)
    }
}

fn unusable(kind: &ParameterKind, why: &dyn Display) -> Uncollected {
    Uncollected::Unusable(Status::internal_error(format!("parameters of the kind `{kind}` cannot be used: {why}")))
}

/// Collects the parameters for a request in this namespace, which may be empty. A parameter that the cache does not have is read from the API
/// server on behalf of `reader`, if there is one.
///
/// # Errors
/// If the parameters cannot be read, or are required and missing.
pub(super) async fn collect(
    kind: Option<&ParameterKind>,
    parameters: Option<&Result<Arc<Parameters>, UnusableKind>>,
    reference: Option<&ParameterReference>,
    namespace: &str,
    reader: Option<&Arc<UserInfo>>,
) -> Result<Collected, Uncollected> {
    let (Some(kind), Some(Ok(parameters)), Some(reference)) = (kind, parameters, reference) else {
        return Ok(Collected::None);
    };
    let Some(namespaced) = parameters.is_namespaced().await else {
        return Err(Misconfigured::UnknownParameters(kind.clone()).into());
    };
    let namespace = match (namespaced, reference.namespace.as_deref()) {
        (false, _) => "",
        (true, Some(named)) => named,
        (true, None) if namespace.is_empty() => {
            return Err(Misconfigured::NoNamespace.into());
        }
        (true, None) => namespace,
    };
    if !parameters.wait_synced(namespace).await {
        return Err(Misconfigured::UnsyncedParameters(kind.clone()).into());
    }
    if !namespaced && reference.namespace.is_some() {
        return Err(Misconfigured::NamespaceGiven.into());
    }
    let found = match (&reference.name, &reference.selector) {
        (Some(_), Some(_)) => return Err(Misconfigured::NameAndSelector.into()),
        (Some(name), None) => {
            let found = match (parameters.find(namespace, name).map_err(|why| unusable(kind, &why))?, reader) {
                (None, Some(reader)) => match parameters.find_live(namespace, name, reader).await {
                    Ok(found) => found,
                    Err(why @ UnreadParameter::Undecodable(_)) => return Err(unusable(kind, &why)),
                    Err(why) => return Err(Misconfigured::UnreadParameter(why).into()),
                },
                (found, _) => found,
            };
            found.into_iter().collect()
        }
        (None, Some(selector)) => {
            let selector = selector.as_ref().map_err(|why| Misconfigured::Selector(why.clone()))?;
            let all = parameters.list(namespace).map_err(|why| unusable(kind, &why))?;
            all.into_iter().filter(|parameter| selector.matches(parameter.labels())).collect()
        }
        (None, None) => return Err(Misconfigured::NeitherNameNorSelector.into()),
    };
    if Vec::is_empty(&found) && reference.must_exist {
        return Err(Misconfigured::NoParameters.into());
    }
    Ok(Collected::Some(found))
}
