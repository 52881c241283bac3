//! The subresource `serviceaccounts/token`, and the authentication of the tokens that it issues.

use crate::body::Body;
use crate::embedded::http::call::Call;
use crate::embedded::http::{body, respond};
use crate::embedded::identity::tokens::{Bound, Claims, InvalidToken, Reference, Tokens};
use crate::embedded::store::{Collection, Reads, key};
use crate::embedded::strategies::collections::{NODES, PODS, SECRETS, SERVICE_ACCOUNTS};
use crate::embedded::strategies::metadata;
use crate::kind::{GroupVersionKind, split_api_version};
use crate::object::Object;
use crate::request::body::OptionsKind;
use crate::status::{Status, invalid};
use crate::user::UserInfo;
use http::{Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The lifetime of a token whose request names none, and the bounds of requests, in seconds (`ValidateTokenRequest`).
const DEFAULT_SECONDS: i64 = 3600;
const MIN_SECONDS: i64 = 600;
const MAX_SECONDS: i64 = 1 << 32;
/// The tolerance for other clocks, in seconds (`jwt.DefaultLeeway`).
const LEEWAY_SECONDS: i64 = 60;

/// Issues a token for a service account (`TokenREST.Create`).
///
/// # Errors
/// If the service account or the bound object does not exist, or the request is invalid.
pub(in crate::embedded) fn issue(call: &Call) -> Result<Response<Body>, Status> {
    // A dry run issues a token too.
    call.dry_run(OptionsKind::Create)?;
    let kind = GroupVersionKind::new("authentication.k8s.io", "v1", "TokenRequest");
    let mut request = body::object(call, &kind)?;
    let (name, namespace) = (call.info.name.as_str(), call.namespace());
    for (field, wanted) in [("name", name), ("namespace", namespace)] {
        let given = request.str(&["metadata", field]);
        if !given.is_empty() && given != wanted {
            let why = format!("must match the service account {field} if specified");
            let cause = invalid::invalid(&format!("metadata.{field}"), &format!("{given:?}"), &why);
            invalid::status(&kind, name, vec![cause]).map_or(Ok(()), Err)?;
        }
    }
    call.owners_of(kind.clone()).record(None, &mut request);
    let account = call.server.store.object(SERVICE_ACCOUNTS, &call.key());
    let account = account.ok_or_else(|| call.not_found())?;
    if !request.uid().is_empty() && request.uid() != account.uid() {
        let why = format!(
            "the UID in the token request ({}) does not match the UID of the service account ({})",
            request.uid(),
            account.uid()
        );
        return Err(Status::conflict(&kind.group, &kind.kind, name, &why));
    }
    if request.items(&["spec", "audiences"]).is_empty() {
        set(&mut request, &["spec", "audiences"], json!(call.server.settings.tokens.audiences()));
    }
    let seconds = request.get(&["spec", "expirationSeconds"]).and_then(Value::as_i64).unwrap_or(DEFAULT_SECONDS);
    check_seconds(&kind, seconds)?;
    let bound = bound(&*call.server.store, &request, &account)?;
    let seconds = call.server.settings.tokens.max_seconds().map_or(seconds, |max| seconds.min(max));
    let now = Timestamp::now();
    let audiences = request.items(&["spec", "audiences"]).iter().filter_map(Value::as_str).map(str::to_owned);
    let claims = Claims {
        aud: audiences.collect(),
        exp: now.as_second().saturating_add(seconds),
        iat: now.as_second(),
        iss: String::new(),
        jti: uuid::Uuid::new_v4().to_string(),
        kubernetes: bound,
        nbf: now.as_second(),
        sub: format!("system:serviceaccount:{namespace}:{name}"),
    };
    let token = call
        .server
        .settings
        .tokens
        .sign(claims)
        .ok_or_else(|| Status::internal_error("failed to generate token: no key"))?;
    let expires = now.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(now);
    for (field, value) in [("name", name), ("namespace", namespace), ("uid", account.uid())] {
        set(&mut request, &["metadata", field], Value::from(value));
    }
    set(&mut request, &["metadata", "creationTimestamp"], Value::from(metadata::timestamp(now)));
    set(&mut request, &["spec", "expirationSeconds"], Value::from(seconds));
    set(&mut request, &["status"], json!({"token": token, "expirationTimestamp": metadata::timestamp(expires)}));
    Ok(respond::value(call, StatusCode::CREATED, &request.into_value()))
}

fn check_seconds(kind: &GroupVersionKind, seconds: i64) -> Result<(), Status> {
    let why = match seconds {
        seconds if seconds < MIN_SECONDS => "may not specify a duration less than 10 minutes",
        seconds if seconds > MAX_SECONDS => "may not specify a duration larger than 2^32 seconds",
        _ => return Ok(()),
    };
    let cause = invalid::invalid("spec.expirationSeconds", &seconds.to_string(), why);
    invalid::status(kind, "", vec![cause]).map_or(Ok(()), Err)
}

/// The objects to which the requested token is bound.
///
/// # Errors
/// If the object does not exist, or is not one of the service account.
fn bound(reads: &impl Reads, request: &Object, account: &Object) -> Result<Bound, Status> {
    let mut bound =
        Bound { namespace: account.namespace().to_owned(), serviceaccount: reference(account), ..Bound::default() };
    if request.get(&["spec", "boundObjectRef"]).is_none_or(Value::is_null) {
        return Ok(bound);
    }
    let text = |field: &str| request.str(&["spec", "boundObjectRef", field]);
    let (group, version) = split_api_version(text("apiVersion"));
    let (kind, name) = (text("kind"), text("name"));
    let find = |collection: &Collection, namespace: &str| {
        let object = reads.object(collection, &key(namespace, name));
        object.ok_or_else(|| Status::not_found("", &collection.resource, name))
    };
    let object: Arc<Object> = match (group, kind) {
        ("", "Pod") => {
            let pod = find(PODS, account.namespace())?;
            if pod.str(&["spec", "serviceAccountName"]) != account.name() {
                return Err(Status::bad_request(format!(
                    "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                    account.name()
                )));
            }
            let node = pod.str(&["spec", "nodeName"]);
            let of_node = |name: &str| Reference { name: name.to_owned(), uid: String::new() };
            bound.node = Some(node)
                .filter(|node| !node.is_empty())
                .map(|node| reads.object(NODES, node).map_or_else(|| of_node(node), |node| reference(&node)));
            bound.pod = Some(reference(&pod));
            pod
        }
        ("", "Node") => {
            let node = find(NODES, "")?;
            bound.node = Some(reference(&node));
            node
        }
        ("", "Secret") => {
            let secret = find(SECRETS, account.namespace())?;
            bound.secret = Some(reference(&secret));
            secret
        }
        _ => {
            let kind = format!("{group}/{version}, Kind={kind}");
            return Err(Status::bad_request(format!("cannot bind token to object of type {kind}")));
        }
    };
    let uid = text("uid");
    if !uid.is_empty() && uid != object.uid() {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and \
             then recreated"
        );
        return Err(Status::conflict(group, kind, name, &why));
    }
    Ok(bound)
}

/// The user of a valid token, and those of the audiences that the token is for.
pub(in crate::embedded) struct Authenticated {
    pub user: UserInfo,
    /// The audiences that were asked for and that the token has.
    pub audiences: Vec<String>,
}

/// Returns the user of a token; `None` for a token of another issuer.
///
/// # Errors
/// If the token is invalid.
pub(in crate::embedded) fn authenticate(
    reads: &impl Reads,
    tokens: &Tokens,
    token: &str,
    audiences: &[String],
) -> Result<Option<Authenticated>, InvalidToken> {
    let Some(claims) = tokens.verify(token)? else { return Ok(None) };
    let wanted = if audiences.is_empty() { tokens.audiences() } else { audiences };
    // A legacy token without audiences is for the API server.
    let given = if claims.aud.is_empty() { tokens.audiences() } else { &claims.aud };
    let audiences: Vec<String> = given.iter().filter(|audience| wanted.contains(audience)).cloned().collect();
    if audiences.is_empty() {
        return Err(InvalidToken::Audiences { given: quoted(given), wanted: quoted(wanted) });
    }
    let now = Timestamp::now().as_second();
    if claims.exp != 0 && now > claims.exp.saturating_add(LEEWAY_SECONDS) {
        return Err(InvalidToken::Expired);
    }
    if now < claims.nbf.saturating_sub(LEEWAY_SECONDS) {
        return Err(InvalidToken::NotYetValid);
    }
    if now < claims.iat.saturating_sub(LEEWAY_SECONDS) {
        return Err(InvalidToken::NotYetIssued);
    }
    check_bound(reads, &claims.kubernetes, now)?;
    Ok(Some(Authenticated { user: user(&claims), audiences }))
}

/// Checks that the objects of a token exist (`validator.Validate`).
fn check_bound(reads: &impl Reads, bound: &Bound, now: i64) -> Result<(), InvalidToken> {
    let account = &bound.serviceaccount;
    let found = reads.object(SERVICE_ACCOUNTS, &key(&bound.namespace, &account.name));
    let found = found.ok_or_else(|| InvalidToken::NoAccount(account.name.clone()))?;
    if found.uid() != account.uid {
        return Err(InvalidToken::OtherAccount { found: found.uid().to_owned(), claimed: account.uid.clone() });
    }
    if is_gone(&found, now) {
        let (namespace, name) = (bound.namespace.clone(), account.name.clone());
        return Err(InvalidToken::DeletedAccount { namespace, name });
    }
    // The node of a token for a pod is only information.
    let node = bound.node.as_ref().filter(|_| bound.pod.is_none());
    for (kind, collection, namespace, reference) in [
        ("secret", SECRETS, bound.namespace.as_str(), bound.secret.as_ref()),
        ("pod", PODS, bound.namespace.as_str(), bound.pod.as_ref()),
        ("node", NODES, "", node),
    ] {
        let Some(reference) = reference else { continue };
        let found = reads.object(collection, &key(namespace, &reference.name)).ok_or(InvalidToken::Unbound)?;
        if found.uid() != reference.uid {
            let (found, claimed) = (found.uid().to_owned(), reference.uid.clone());
            return Err(InvalidToken::OtherObject { kind, found, claimed });
        }
        if is_gone(&found, now) {
            return Err(InvalidToken::Unbound);
        }
    }
    Ok(())
}

/// Whether an object is being deleted, for longer than clocks differ.
fn is_gone(object: &Object, now: i64) -> bool {
    let deleted: Option<Timestamp> = object.str(&["metadata", "deletionTimestamp"]).parse().ok();
    deleted.is_some_and(|deleted| deleted.as_second() < now.saturating_sub(LEEWAY_SECONDS))
}

/// `ServiceAccountInfo.UserInfo`
fn user(claims: &Claims) -> UserInfo {
    let Bound { namespace, node, pod, serviceaccount, .. } = &claims.kubernetes;
    let mut extra = BTreeMap::new();
    let mut add = |name: &str, value: &str| {
        if !value.is_empty() {
            extra.insert(format!("authentication.kubernetes.io/{name}"), vec![value.to_owned()]);
        }
    };
    if !claims.jti.is_empty() {
        add("credential-id", &format!("JTI={}", claims.jti));
    }
    for (kind, reference) in [("pod", pod), ("node", node)] {
        if let Some(reference) = reference {
            add(&format!("{kind}-name"), &reference.name);
            add(&format!("{kind}-uid"), &reference.uid);
        }
    }
    UserInfo {
        username: format!("system:serviceaccount:{namespace}:{}", serviceaccount.name),
        uid: serviceaccount.uid.clone(),
        groups: vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")],
        extra,
    }
}

fn reference(object: &Object) -> Reference {
    Reference { name: object.name().to_owned(), uid: object.uid().to_owned() }
}

/// Go's `%q` of a list.
fn quoted(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| crate::go_text::go_quote(text)).collect();
    format!("[{}]", quoted.join(" "))
}

fn set(object: &mut Object, path: &[&str], value: Value) {
    // An object of another shape was refused when it was read.
    let _ = object.set(path, value);
}
