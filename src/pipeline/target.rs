//! What a mutating request is about: the resource as discovery knows it.

use crate::cluster::Cluster;
use crate::cluster::discovery::{Discovery, Resource, Subresource};
use crate::kind::{GroupVersionKind, GroupVersionResource};
use crate::object::version::deprecation;
use crate::request::RequestInfo;
use crate::status::Status;
use http::Method;
use std::sync::Arc;

/// The resource, subresource, namespace and name that a request names.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) resource: GroupVersionResource,
    pub(super) subresource: String,
    /// As the URL has it; admission sees a namespace's own name for the resource `namespaces`.
    pub(super) namespace: String,
    pub(super) name: String,
    /// What stands behind a `proxy` subresource, from its slash on.
    pub(super) rest: String,
    facts: Arc<Resource>,
}

impl Target {
    /// Finds the resource in discovery.
    ///
    /// # Errors
    /// 404 when there is no such resource.
    pub(super) async fn find(discovery: &Discovery, info: &RequestInfo) -> Result<Self, Status> {
        // The legacy paths `/api/v1/watch/…` have no writes, and `/api/v1/proxy/…` are gone.
        if info.verb == "watch" {
            return Err(not_allowed());
        }
        if info.verb == "proxy" && info.subresource != "proxy" {
            return Err(no_such_path(info));
        }
        let facts = discovery.resource(&info.api_group, &info.api_version, &info.resource).await;
        let facts = facts.ok_or_else(|| match discovery.serves_group(&info.api_group) {
            true => no_such_path(info),
            false => Status::page_not_found(),
        })?;
        Ok(Self {
            resource: GroupVersionResource::new(&*info.api_group, &*info.api_version, &*info.resource),
            subresource: info.subresource.clone(),
            namespace: info.namespace.clone(),
            name: info.name.clone(),
            rest: rest(info),
            facts,
        })
    }

    /// Whether the resource takes such a request.
    ///
    /// # Errors
    /// 404 when there is no such subresource, 405 when it does not have the verb.
    pub(super) fn check(&self, method: &Method, info: &RequestInfo) -> Result<(), Status> {
        self.check_path(info)?;
        self.check_form(info)?;
        let allowed = self.is_connect() || self.verbs().contains(&info.verb);
        if allowed || *method == Method::GET { Ok(()) } else { Err(not_allowed()) }
    }

    /// The URL has the form that the resource is served at.
    fn check_path(&self, info: &RequestInfo) -> Result<(), Status> {
        let unknown_subresource = !self.subresource.is_empty() && self.sub().is_none();
        let is_proxied = self.is_connect() && self.subresource == "proxy";
        let too_long = info.parts.len() > 3 && !is_proxied;
        let is_namespace = self.resource.resource == "namespaces" && self.name == self.namespace;
        let wrong_scope = !self.facts.namespaced && !self.namespace.is_empty() && !is_namespace;
        if unknown_subresource && !self.is_built_in() && !too_long {
            return Err(Status::not_found(&self.resource.group, &self.resource.resource, &self.name));
        }
        // What can only be created, reviews and bindings, has no route for a name.
        let is_never_named = self.is_built_in() && self.facts.verbs == ["create"] && !self.name.is_empty();
        if unknown_subresource || too_long || wrong_scope || is_never_named { Err(no_such_path(info)) } else { Ok(()) }
    }

    /// The verb is one of the URL's form: objects are created in a collection and changed under their names, both in a
    /// namespace where they have one. Without this, plugins would act on what the API server refuses.
    fn check_form(&self, info: &RequestInfo) -> Result<(), Status> {
        let is_built_in = self.is_built_in();
        let of_one = !self.name.is_empty();
        if self.facts.namespaced && self.namespace.is_empty() {
            return Err(if is_built_in && !of_one { not_allowed() } else { no_such_path(info) });
        }
        match info.verb.as_str() {
            // Custom resources may have a name on the URL, which means nothing.
            "create" if of_one && is_built_in && self.subresource.is_empty() => Err(not_allowed()),
            "update" | "patch" if !of_one && is_built_in => Err(not_allowed()),
            "update" | "patch" if !of_one => Err(Status::bad_request("name must be provided")),
            _ => Ok(()),
        }
    }

    fn sub(&self) -> Option<&Subresource> {
        self.facts.subresources.get(&self.subresource)
    }

    fn verbs(&self) -> &[String] {
        match self.sub() {
            Some(subresource) => &subresource.verbs,
            None => &self.facts.verbs,
        }
    }

    /// Whether the resource is one of Kubernetes' own.
    pub(super) fn is_built_in(&self) -> bool {
        crate::object::schema::of(&self.facts.kind).is_some()
    }

    /// Whether its group is one of Kubernetes' own, in whichever version.
    pub(super) fn is_of_kubernetes(&self) -> bool {
        crate::object::schema::kinds().any(|(kind, _)| kind.group == self.resource.group)
    }

    /// Whether the resource has a subresource `status`.
    pub(super) fn has_status(&self) -> bool {
        self.facts.subresources.contains_key("status")
    }

    /// Kind of the resource's objects, whichever subresource the URL is about.
    pub(super) fn resource_kind(&self) -> &GroupVersionKind {
        &self.facts.kind
    }

    /// Kind of the body that the URL takes.
    pub(super) fn kind(&self) -> &GroupVersionKind {
        self.sub().map_or(&self.facts.kind, |subresource| &subresource.kind)
    }

    /// What clients are told if the version is deprecated; of a custom resource's, as far as the cache knows it.
    pub(super) fn deprecation(&self, cluster: &Cluster) -> Option<String> {
        let custom = || cluster.custom_resource(self.resource_kind())?.deprecation.clone();
        deprecation(self.kind()).or_else(custom)
    }

    /// Whether it is exec, attach, portforward or proxy.
    pub(super) fn is_connect(&self) -> bool {
        self.sub().is_some_and(Subresource::is_connect)
    }

    /// Whether the URL, subresource included, can be read.
    pub(super) fn can_get(&self) -> bool {
        self.verbs().iter().any(|verb| verb == "get")
    }

    /// Whether objects are stored under a name: not those of reviews, which can only be created.
    pub(super) fn must_be_named(&self) -> bool {
        self.can_get()
    }

    /// Whether it is a question to the API server, which changes nothing: who somebody is, or what they may do.
    pub(super) fn is_review(&self) -> bool {
        let is_asked = matches!(&*self.resource.group, "authentication.k8s.io" | "authorization.k8s.io");
        is_asked && self.is_built_in() && self.subresource.is_empty() && !self.must_be_named()
    }

    /// Whether there is a Table of it (`RequestScope.TableConvertor`).
    pub(super) fn has_table(&self) -> bool {
        if self.subresource.is_empty() { self.can_get() } else { ["scale", "status"].contains(&&*self.subresource) }
    }

    /// Whether the resource is `namespaces` itself.
    pub(super) fn is_namespaces(&self) -> bool {
        self.resource.group.is_empty() && self.resource.resource == "namespaces"
    }

    /// The namespace that an object in the body must have (`rest.ExpectedNamespaceForResource`).
    pub(super) fn expected_namespace(&self) -> &str {
        if self.is_namespaces() { "" } else { &self.namespace }
    }
}

/// The answer to a path in which segments are empty, `.`, `..` or escaped: Go's mux refuses it where it begins like no web service.
pub(super) fn not_canonical(path: &str, discovery: &Discovery) -> Status {
    let mut segments = path.trim_start_matches('/').split('/');
    let is_served = match (path.starts_with("//"), segments.next()) {
        (false, Some("api")) => true,
        (false, Some("apis")) => segments.next().is_some_and(|group| discovery.serves_group(group)),
        _ => false,
    };
    if is_served { Status::no_such_path() } else { Status::page_not_found() }
}

/// A path that is not served: in plain text where no group of Kubernetes' own would have it.
fn no_such_path(info: &RequestInfo) -> Status {
    let is_of_kubernetes = crate::object::schema::kinds().any(|(kind, _)| kind.group == info.api_group)
        && info.api_group.is_empty() == (info.api_prefix == "api");
    if is_of_kubernetes { Status::no_such_path() } else { Status::page_not_found() }
}

/// What stands behind a subresource, its last slash included (`getRequestOptions`).
fn rest(info: &RequestInfo) -> String {
    let mut rest: String = info.parts.iter().skip(3).flat_map(|part| ["/", part]).collect();
    if info.path.ends_with('/') && !rest.ends_with('/') {
        rest.push('/');
    }
    rest
}

pub(super) fn not_allowed() -> Status {
    Status::failure(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        .with_details(Default::default())
}
