//! The target of a mutating request: the resource as discovery knows it.

use crate::cluster::Cluster;
use crate::cluster::discovery::{Discovery, Resource, Subresource};
use crate::kind::{GroupVersionKind, GroupVersionResource};
use crate::object::version::deprecation;
use crate::request::RequestInfo;
use crate::status::Status;
use http::Method;
use std::sync::Arc;

/// The resource, subresource, namespace and name in a request's URL.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) resource: GroupVersionResource,
    pub(super) subresource: String,
    /// The namespace in the URL. For the resource `namespaces` admission sees the namespace's own name here.
    pub(super) namespace: String,
    pub(super) name: String,
    /// The path after a `proxy` subresource, from its slash on.
    pub(super) rest: String,
    facts: Arc<Resource>,
}

impl Target {
    /// Finds the resource in discovery.
    ///
    /// # Errors
    /// 404 if discovery has no such resource.
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

    /// Checks that the resource supports the request.
    ///
    /// # Errors
    /// 404 if there is no such subresource, 405 if the resource does not have the verb.
    pub(super) fn check(&self, method: &Method, info: &RequestInfo) -> Result<(), Status> {
        self.check_path(info)?;
        self.check_form(info)?;
        let allowed = self.is_connect() || self.verbs().contains(&info.verb) || self.is_of_terminating_definition();
        match allowed || *method == Method::GET {
            true => Ok(()),
            false if self.is_built_in() => Err(not_allowed()),
            // `crdHandler.serveResource`, `serveStatus`, `serveScale`
            false => Err(Status::method_not_supported(&self.resource.group, &self.resource.resource, &info.verb)),
        }
    }

    /// Checks that the URL has the form that the resource is served at.
    fn check_path(&self, info: &RequestInfo) -> Result<(), Status> {
        let unknown_subresource = !self.subresource.is_empty() && self.sub().is_none();
        let is_proxied = self.is_connect() && self.subresource == "proxy";
        let too_long = info.parts.len() > 3 && !is_proxied;
        let is_namespace = self.resource.resource == "namespaces" && self.name == self.namespace;
        let wrong_scope = !self.facts.namespaced && !self.namespace.is_empty() && !is_namespace;
        if unknown_subresource && !self.is_built_in() && !too_long {
            return Err(Status::not_found(&self.resource.group, &self.resource.resource, &self.name));
        }
        // Create-only resources, such as reviews and bindings, have no route for a name.
        let is_never_named = self.is_built_in() && self.facts.verbs == ["create"] && !self.name.is_empty();
        if unknown_subresource || too_long || wrong_scope || is_never_named { Err(no_such_path(info)) } else { Ok(()) }
    }

    /// Checks that the verb fits the URL: objects are created in a collection and changed under their names, namespaced objects
    /// in a namespace. Without this check plugins would act on requests that the API server refuses.
    fn check_form(&self, info: &RequestInfo) -> Result<(), Status> {
        let is_built_in = self.is_built_in();
        let of_one = !self.name.is_empty();
        if self.facts.namespaced && self.namespace.is_empty() {
            return Err(if is_built_in && !of_one { not_allowed() } else { no_such_path(info) });
        }
        match info.verb.as_str() {
            // kube-apiserver ignores a name in the URL of a create of a custom resource.
            "create" if of_one && is_built_in && self.subresource.is_empty() => Err(not_allowed()),
            "update" | "patch" if !of_one && is_built_in => Err(not_allowed()),
            "update" | "patch" if !of_one => Err(Status::bad_request("name must be provided")),
            _ => Ok(()),
        }
    }

    /// Whether discovery has the verbs of a custom resource whose definition is being deleted (`DiscoveryController.sync`). The API server
    /// still answers the others: it forbids creates, and patches remove finalizers.
    fn is_of_terminating_definition(&self) -> bool {
        const VERBS: [&str; 5] = ["delete", "deletecollection", "get", "list", "watch"];
        let has_exactly = |verbs: &[String]| {
            verbs.len() == VERBS.len() && VERBS.iter().all(|verb| verbs.iter().any(|own| own == verb))
        };
        self.subresource.is_empty() && !self.is_built_in() && has_exactly(&self.facts.verbs)
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

    /// Whether the group of the resource is one of Kubernetes' own, in any version.
    pub(super) fn is_of_kubernetes(&self) -> bool {
        crate::object::schema::kinds().any(|(kind, _)| kind.group == self.resource.group)
    }

    /// Whether the resource has a subresource `status`.
    pub(super) fn has_status(&self) -> bool {
        self.facts.subresources.contains_key("status")
    }

    /// The kind of the resource's objects, also for the URL of a subresource.
    pub(super) fn resource_kind(&self) -> &GroupVersionKind {
        &self.facts.kind
    }

    /// The kind of the request body.
    pub(super) fn kind(&self) -> &GroupVersionKind {
        self.sub().map_or(&self.facts.kind, |subresource| &subresource.kind)
    }

    /// The deprecation warning of the version; for a custom resource, as far as the cache knows it.
    pub(super) fn deprecation(&self, cluster: &Cluster) -> Option<String> {
        let custom = || cluster.custom_resource(self.resource_kind())?.deprecation.clone();
        deprecation(self.kind()).or_else(custom)
    }

    /// Whether the subresource is exec, attach, portforward or proxy.
    pub(super) fn is_connect(&self) -> bool {
        self.sub().is_some_and(Subresource::is_connect)
    }

    /// Whether the URL, subresource included, can be read.
    pub(super) fn can_get(&self) -> bool {
        self.verbs().iter().any(|verb| verb == "get")
    }

    /// Whether objects are stored under a name. Reviews, which can only be created, are not stored.
    pub(super) fn must_be_named(&self) -> bool {
        self.can_get()
    }

    /// Whether the resource is a review, which changes nothing: the API server answers who a user is, or what a user may do.
    pub(super) fn is_review(&self) -> bool {
        let is_asked = matches!(&*self.resource.group, "authentication.k8s.io" | "authorization.k8s.io");
        is_asked && self.is_built_in() && self.subresource.is_empty() && !self.must_be_named()
    }

    /// Whether the API server can answer with a Table (`RequestScope.TableConvertor`).
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

/// The answer to a path with segments that are empty, `.`, `..` or escaped: Go's mux refuses a path outside of every web service.
pub(super) fn not_canonical(path: &str, discovery: &Discovery) -> Status {
    let mut segments = path.trim_start_matches('/').split('/');
    let is_served = match (path.starts_with("//"), segments.next()) {
        (false, Some("api")) => true,
        (false, Some("apis")) => segments.next().is_some_and(|group| discovery.serves_group(group)),
        _ => false,
    };
    if is_served { Status::no_such_path() } else { Status::page_not_found() }
}

/// The 404 for a path that is not served: in plain text if the path is in no group of Kubernetes' own.
fn no_such_path(info: &RequestInfo) -> Status {
    let is_of_kubernetes = crate::object::schema::kinds().any(|(kind, _)| kind.group == info.api_group)
        && info.api_group.is_empty() == (info.api_prefix == "api");
    if is_of_kubernetes { Status::no_such_path() } else { Status::page_not_found() }
}

/// The path after a subresource, with its last slash (`getRequestOptions`).
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
