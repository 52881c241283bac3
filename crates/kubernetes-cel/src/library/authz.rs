//! Access reviews: `library.Authz` and `library.AuthzSelectors` of Kubernetes.
//!
//! These functions make no requests. If the decision for a review is missing, the expression fails with an [`Error::Review`], and is
//! evaluated again once the decision is known.

use super::{Result, opaque, overload, size};
use crate::function::Function;
use crate::types::Type;
use crate::value::{Access, AccessDecision, Error, Opaque, Review, Value};
use kubernetes_object::names::{is_dns_1123_label, is_dns_1123_subdomain};
use std::fmt;
use std::sync::Arc;

/// Functions that build reviews and read decisions.
pub const FUNCTIONS: &[Function] = &[
    Function {
        name: "path",
        overloads: &[overload(
            "authorizer_path",
            "kubernetes.authorization.Authorizer.path(string): kubernetes.authorization.PathCheck",
        )],
        call: path,
        cost: None,
    },
    Function {
        name: "group",
        overloads: &[overload(
            "authorizer_group",
            "kubernetes.authorization.Authorizer.group(string): kubernetes.authorization.GroupCheck",
        )],
        call: group,
        cost: None,
    },
    Function {
        name: "serviceAccount",
        overloads: &[overload(
            "authorizer_serviceaccount",
            "kubernetes.authorization.Authorizer.serviceAccount(string, string): kubernetes.authorization.Authorizer",
        )],
        call: service_account,
        cost: None,
    },
    Function {
        name: "resource",
        overloads: &[overload(
            "groupcheck_resource",
            "kubernetes.authorization.GroupCheck.resource(string): kubernetes.authorization.ResourceCheck",
        )],
        call: resource,
        cost: None,
    },
    Function {
        name: "subresource",
        overloads: &[overload(
            "resourcecheck_subresource",
            "kubernetes.authorization.ResourceCheck.subresource(string): kubernetes.authorization.ResourceCheck",
        )],
        call: |arguments| with(arguments, |access, subresource| access.subresource = subresource),
        cost: None,
    },
    Function {
        name: "namespace",
        overloads: &[overload(
            "resourcecheck_namespace",
            "kubernetes.authorization.ResourceCheck.namespace(string): kubernetes.authorization.ResourceCheck",
        )],
        call: |arguments| with(arguments, |access, namespace| access.namespace = namespace),
        cost: None,
    },
    Function {
        name: "name",
        overloads: &[overload(
            "resourcecheck_name",
            "kubernetes.authorization.ResourceCheck.name(string): kubernetes.authorization.ResourceCheck",
        )],
        call: |arguments| with(arguments, |access, name| access.name = name),
        cost: None,
    },
    Function {
        name: "fieldSelector",
        overloads: &[overload(
            "authorizer_fieldselector",
            "kubernetes.authorization.ResourceCheck.fieldSelector(string): kubernetes.authorization.ResourceCheck",
        )],
        call: |arguments| with(arguments, |access, selector| access.field_selector = selector),
        cost: Some(|_, arguments, _| cost_of_selector(size(arguments, 1))),
    },
    Function {
        name: "labelSelector",
        overloads: &[overload(
            "authorizer_labelselector",
            "kubernetes.authorization.ResourceCheck.labelSelector(string): kubernetes.authorization.ResourceCheck",
        )],
        call: |arguments| with(arguments, |access, selector| access.label_selector = selector),
        cost: Some(|_, arguments, _| cost_of_selector(size(arguments, 1))),
    },
    Function {
        name: "check",
        overloads: &[
            overload(
                "pathcheck_check",
                "kubernetes.authorization.PathCheck.check(string): kubernetes.authorization.Decision",
            ),
            overload(
                "resourcecheck_check",
                "kubernetes.authorization.ResourceCheck.check(string): kubernetes.authorization.Decision",
            ),
        ],
        call: check,
        // An expression can afford two reviews.
        cost: Some(|_, _, _| 350_000),
    },
    Function {
        name: "allowed",
        overloads: &[overload("decision_allowed", "kubernetes.authorization.Decision.allowed(): bool")],
        call: |arguments| Ok(Value::Bool(answer(arguments)?.0.as_ref().is_ok_and(|decision| decision.allowed))),
        cost: None,
    },
    Function {
        name: "reason",
        overloads: &[overload("decision_reason", "kubernetes.authorization.Decision.reason(): string")],
        call: |arguments| Ok(Value::string(answer(arguments)?.0.as_ref().map_or("", |decision| &decision.reason))),
        cost: None,
    },
    Function {
        name: "errored",
        overloads: &[overload("decision_errored", "kubernetes.authorization.Decision.errored(): bool")],
        call: |arguments| Ok(Value::Bool(answer(arguments)?.0.is_err())),
        cost: None,
    },
    Function {
        name: "error",
        overloads: &[overload("decision_error", "kubernetes.authorization.Decision.error(): string")],
        call: |arguments| Ok(Value::string(answer(arguments)?.0.as_ref().err().map_or("", |error| &*error.0))),
        cost: None,
    },
];

/// The cost of parsing the text, and of a list and a structure for each requirement (`selectorCostEstimate`).
fn cost_of_selector(length: u64) -> u64 {
    let times = |size: u64, factor: f64| (size as f64 * factor).ceil() as u64;
    10 + times(length, 0.1) + times(times(length, 0.5), 50.0)
}

/// The reason why an access review failed, as `error()` of a decision returns it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AccessReviewError(
    /// The text.
    pub String,
);

/// The decisions that are known.
pub trait Answers: fmt::Debug + Send + Sync {
    /// The decision of a review, or the reason why it failed; `None` if the review has not been made.
    fn answer(&self, review: &Review) -> Option<std::result::Result<AccessDecision, AccessReviewError>>;
}

/// The variable `authorizer`: reviews for the request's user.
pub fn authorizer(answers: Arc<dyn Answers>) -> Value<'static> {
    value(Asked { answers, service_account: None }, Authorizer)
}

/// The variable `authorizer.requestResource`: reviews for the request's user on this resource; the verb of `base` is ignored
/// (`NewResourceAuthorizerVal`).
pub fn resource_check(answers: Arc<dyn Answers>, base: Access) -> Value<'static> {
    let access = Access { is_resource_request: true, api_version: "*".to_owned(), ..base };
    value(Asked { answers, service_account: None }, ResourceCheck(access))
}

/// The known decisions, and the subject of the reviews.
#[derive(Clone, Debug)]
struct Asked {
    answers: Arc<dyn Answers>,
    service_account: Option<(String, String)>,
}

trait Part: fmt::Debug + Send + Sync + 'static {
    const TYPE: &'static str;
}

/// A part of a review.
#[derive(Debug)]
struct Question<P> {
    asked: Asked,
    part: P,
}

#[derive(Debug)]
struct Authorizer;

#[derive(Debug)]
struct PathCheck(String);

#[derive(Debug)]
struct GroupCheck(String);

#[derive(Debug)]
struct ResourceCheck(Access);

impl Part for Authorizer {
    const TYPE: &'static str = "kubernetes.authorization.Authorizer";
}

impl Part for PathCheck {
    const TYPE: &'static str = "kubernetes.authorization.PathCheck";
}

impl Part for GroupCheck {
    const TYPE: &'static str = "kubernetes.authorization.GroupCheck";
}

impl Part for ResourceCheck {
    const TYPE: &'static str = "kubernetes.authorization.ResourceCheck";
}

/// The authorizer's decision.
#[derive(Debug)]
struct Answer(std::result::Result<AccessDecision, AccessReviewError>);

/// Values of this library equal no value, not even themselves.
impl<P: Part> Opaque for Question<P> {
    fn r#type(&self) -> Type {
        Type::opaque(P::TYPE)
    }

    fn equals(&self, _: &dyn Opaque) -> std::result::Result<bool, Error> {
        Err(Error::OVERLOAD)
    }
}

impl Opaque for Answer {
    fn r#type(&self) -> Type {
        Type::opaque("kubernetes.authorization.Decision")
    }

    fn equals(&self, _: &dyn Opaque) -> std::result::Result<bool, Error> {
        Err(Error::OVERLOAD)
    }
}

fn value<P: Part>(asked: Asked, part: P) -> Value<'static> {
    Value::Opaque(Arc::new(Question { asked, part }))
}

/// A part of a review and a text.
fn pair<'v, P: Part>(arguments: &'v [Value<'_>]) -> std::result::Result<(&'v Question<P>, String), Error> {
    match arguments {
        [question, Value::String(text)] => Ok((opaque(question).ok_or(Error::NoSuchOverload)?, text.to_string())),
        _ => Err(Error::NoSuchOverload),
    }
}

fn path<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    let (authorizer, path) = pair::<Authorizer>(arguments)?;
    if path.trim().is_empty() {
        return Err(Error::new("path must not be empty"));
    }
    Ok(value(authorizer.asked.clone(), PathCheck(path)))
}

fn group<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    let (authorizer, group) = pair::<Authorizer>(arguments)?;
    Ok(value(authorizer.asked.clone(), GroupCheck(group)))
}

fn service_account<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    let [authorizer, Value::String(namespace), Value::String(name)] = arguments else {
        return Err(Error::NoSuchOverload);
    };
    let authorizer: &Question<Authorizer> = opaque(authorizer).ok_or(Error::NoSuchOverload)?;
    if !is_dns_1123_subdomain(name) {
        return Err(Error::new("Invalid service account name"));
    }
    if !is_dns_1123_label(namespace) {
        return Err(Error::new("Invalid service account namespace"));
    }
    let service_account = Some((namespace.to_string(), name.to_string()));
    Ok(value(Asked { answers: authorizer.asked.answers.clone(), service_account }, Authorizer))
}

fn resource<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    let (group, resource) = pair::<GroupCheck>(arguments)?;
    if resource.trim().is_empty() {
        return Err(Error::new("resource must not be empty"));
    }
    let access = Access {
        is_resource_request: true,
        api_group: group.part.0.clone(),
        api_version: "*".to_owned(),
        resource,
        ..Access::default()
    };
    Ok(value(group.asked.clone(), ResourceCheck(access)))
}

fn with<'a>(arguments: &[Value<'a>], set: fn(&mut Access, String)) -> Result<'a> {
    let (check, text) = pair::<ResourceCheck>(arguments)?;
    let mut access = check.part.0.clone();
    set(&mut access, text);
    Ok(value(check.asked.clone(), ResourceCheck(access)))
}

fn check<'a>(arguments: &[Value<'a>]) -> Result<'a> {
    let (asked, access) = match (pair::<PathCheck>(arguments), pair::<ResourceCheck>(arguments)) {
        (Ok((check, verb)), _) => (&check.asked, Access { path: check.part.0.clone(), verb, ..Access::default() }),
        (_, Ok((check, verb))) => (&check.asked, Access { verb, ..check.part.0.clone() }),
        _ => return Err(Error::NoSuchOverload),
    };
    let review = Review { service_account: asked.service_account.clone(), access };
    match asked.answers.answer(&review) {
        Some(answer) => Ok(Value::Opaque(Arc::new(Answer(answer)))),
        None => Err(Error::Review(Box::new(review))),
    }
}

fn answer<'v>(arguments: &'v [Value<'_>]) -> std::result::Result<&'v Answer, Error> {
    match arguments {
        [value] => opaque(value).ok_or(Error::NoSuchOverload),
        _ => Err(Error::NoSuchOverload),
    }
}
