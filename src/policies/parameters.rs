//! The parameters with which a policy is evaluated for a binding (`generic.CollectParams`).

use super::binding::ParameterReference;
use super::policy::{ParameterKind, UnusableKind};
use super::source::unknown_kind;
use crate::cluster::{Parameter, Parameters, Unusable};
use crate::status::Status;
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
            None => Err(unknown_kind(parameters.kind())),
        },
    }
}

/// The reason why there are no parameters.
#[derive(Debug)]
pub(super) enum Uncollected {
    /// A configuration error, in kube-apiserver's text; the policy's failurePolicy decides.
    Misconfigured(String),
    /// The parameters are unknown, which cannot happen in kube-apiserver. The request is rejected whatever the failurePolicy:
    /// objects of other users must not switch a policy off.
    Unusable(Status),
}

impl From<String> for Uncollected {
    fn from(why: String) -> Self {
        Self::Misconfigured(why)
    }
}

impl From<&str> for Uncollected {
    fn from(why: &str) -> Self {
        Self::Misconfigured(why.to_owned())
    }
}

fn unusable(kind: &ParameterKind, why: &Unusable) -> Uncollected {
    Uncollected::Unusable(Status::internal_error(format!("parameters of the kind `{kind}` cannot be used: {why}")))
}

/// Collects the parameters for a request in this namespace, which may be empty.
///
/// # Errors
/// If the parameters cannot be read, or are required and missing; with kube-apiserver's text.
pub(super) async fn collect(
    kind: Option<&ParameterKind>,
    parameters: Option<&Result<Arc<Parameters>, UnusableKind>>,
    reference: Option<&ParameterReference>,
    namespace: &str,
) -> Result<Collected, Uncollected> {
    let (Some(kind), Some(Ok(parameters)), Some(reference)) = (kind, parameters, reference) else {
        return Ok(Collected::None);
    };
    let Some(namespaced) = parameters.is_namespaced().await else {
        return Err(format!("paramKind kind `{kind}` not known").into());
    };
    let namespace = match (namespaced, reference.namespace.as_deref()) {
        (false, _) => "",
        (true, Some(named)) => named,
        (true, None) if namespace.is_empty() => {
            return Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".into());
        }
        (true, None) => namespace,
    };
    if !parameters.wait_synced(namespace).await {
        return Err(format!("paramKind kind `{kind}` not yet synced to use for admission").into());
    }
    if !namespaced && reference.namespace.is_some() {
        return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".into());
    }
    let found = match (&reference.name, &reference.selector) {
        (Some(_), Some(_)) => return Err("paramRef.name and paramRef.selector are mutually exclusive".into()),
        (Some(name), None) => {
            parameters.find(namespace, name).map_err(|why| unusable(kind, &why))?.into_iter().collect()
        }
        (None, Some(selector)) => {
            let selector = selector.as_ref().map_err(ToString::to_string)?;
            let all = parameters.list(namespace).map_err(|why| unusable(kind, &why))?;
            all.into_iter().filter(|parameter| selector.matches(parameter.labels())).collect()
        }
        (None, None) => return Err("one of name or selector must be provided".into()),
    };
    if Vec::is_empty(&found) && reference.must_exist {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".into());
    }
    Ok(Collected::Some(found))
}
