//! A user's action in the form that authorizers see, and the text that rejects it.

use super::selectors;
use crate::go_text::go_quote;
use crate::request::RequestInfo;
use crate::status::Status;
use crate::user::UserInfo;
use k8s_openapi::api::authorization::v1::{
    FieldSelectorAttributes, LabelSelectorAttributes, NonResourceAttributes, ResourceAttributes,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldSelectorRequirement, LabelSelectorRequirement};

/// `authorizer.AttributesRecord`, without the user.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AccessAttributes {
    /// Whether the action is on a resource of the API, rather than on a path.
    pub(crate) is_resource_request: bool,
    /// `get`, `create`, `impersonate`, …; for a path the method in lower case.
    pub(crate) verb: String,
    /// Namespace; empty at the cluster scope.
    pub(crate) namespace: String,
    pub(crate) api_group: String,
    pub(crate) api_version: String,
    /// Plural resource name.
    pub(crate) resource: String,
    pub(crate) subresource: String,
    /// Name of the object; empty for all objects.
    pub(crate) name: String,
    /// The path of the request.
    pub(crate) path: String,
    /// The requirements of the client's field selector; empty without a readable one.
    pub(crate) field_requirements: Vec<FieldSelectorRequirement>,
    /// The requirements of the client's label selector; empty without a readable one.
    pub(crate) label_requirements: Vec<LabelSelectorRequirement>,
}

/// Converts the attributes of a request (`GetAuthorizerAttributes`).
impl From<&RequestInfo> for AccessAttributes {
    fn from(info: &RequestInfo) -> Self {
        Self {
            is_resource_request: info.is_resource_request,
            verb: info.verb.clone(),
            namespace: info.namespace.clone(),
            api_group: info.api_group.clone(),
            api_version: info.api_version.clone(),
            resource: info.resource.clone(),
            subresource: info.subresource.clone(),
            name: info.name.clone(),
            path: info.path.clone(),
            field_requirements: selectors::fields(&info.field_selector),
            label_requirements: selectors::labels(&info.label_selector),
        }
    }
}

impl AccessAttributes {
    /// Restricts the action to the objects of these selectors, as far as they are readable; an empty selector restricts nothing.
    #[must_use]
    pub(crate) fn selecting(mut self, field_selector: &str, label_selector: &str) -> Self {
        self.field_requirements = selectors::fields(field_selector);
        self.label_requirements = selectors::labels(label_selector);
        self
    }

    /// Returns the bytes of the client-chosen attributes (`shouldCache`).
    pub(super) fn size(&self) -> usize {
        let Self { namespace, verb, api_group, api_version, resource, subresource, name, path, .. } = self;
        [namespace, verb, api_group, api_version, resource, subresource, name, path].into_iter().map(String::len).sum()
    }

    /// Returns the attributes of a resource or of a path, in the form of a review (`resourceAttributesFrom`).
    pub(super) fn to_api(&self) -> (Option<ResourceAttributes>, Option<NonResourceAttributes>) {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        if !self.is_resource_request {
            return (None, Some(NonResourceAttributes { path: given(&self.path), verb: given(&self.verb) }));
        }
        let field_selector = (!self.field_requirements.is_empty()).then(|| FieldSelectorAttributes {
            requirements: Some(self.field_requirements.clone()),
            ..FieldSelectorAttributes::default()
        });
        let label_selector = (!self.label_requirements.is_empty()).then(|| LabelSelectorAttributes {
            requirements: Some(self.label_requirements.clone()),
            ..LabelSelectorAttributes::default()
        });
        let attributes = ResourceAttributes {
            namespace: given(&self.namespace),
            verb: given(&self.verb),
            group: given(&self.api_group),
            version: given(&self.api_version),
            resource: given(&self.resource),
            subresource: given(&self.subresource),
            name: given(&self.name),
            field_selector,
            label_selector,
        };
        (Some(attributes), None)
    }

    /// Creates the rejection (`responsewriters.ForbiddenStatusError`).
    pub(crate) fn forbidden(&self, user: &UserInfo, reason: &str) -> Status {
        let mut why = sanitize(&self.cannot(user));
        if !reason.is_empty() {
            why.push_str(": ");
            why.push_str(reason);
        }
        Status::forbidden(&self.api_group, &self.resource, &self.name, &why)
    }

    /// Returns the text of a rejection without its reason (`responsewriters.forbiddenMessage`).
    fn cannot(&self, user: &UserInfo) -> String {
        let (user, verb) = (go_quote(&user.username), &self.verb);
        if !self.is_resource_request {
            return format!("User {user} cannot {verb} path {}", go_quote(&self.path));
        }
        let resource = match self.subresource.as_str() {
            "" => go_quote(&self.resource),
            subresource => go_quote(&format!("{}/{subresource}", self.resource)),
        };
        let scope = match self.namespace.as_str() {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {}", go_quote(namespace)),
        };
        format!("User {user} cannot {verb} resource {resource} in API group {} {scope}", go_quote(&self.api_group))
    }
}

/// Escapes the characters of HTML (`responsewriters.sanitizer`).
fn sanitize(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(verb: &str, group: &str, resource: &str, namespace: &str, name: &str) -> AccessAttributes {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        AccessAttributes {
            is_resource_request: true,
            verb: verb.into(),
            api_group: group.into(),
            resource: resource.into(),
            subresource: subresource.into(),
            namespace: namespace.into(),
            name: name.into(),
            ..AccessAttributes::default()
        }
    }

    /// A kube-apiserver 1.36 gave every text.
    #[test]
    fn refuses_in_the_words_of_kube_apiserver() {
        let path = |verb: &str, path: &str| AccessAttributes {
            verb: verb.into(),
            path: path.into(),
            ..AccessAttributes::default()
        };
        let table = [
            (
                attributes("create", "", "pods", "default", ""),
                "alice",
                r#"pods is forbidden: User "alice" cannot create resource "pods" in API group "" in the namespace "default""#,
            ),
            (
                attributes("create", "", "pods/exec", "default", "x"),
                "alice",
                r#"pods "x" is forbidden: User "alice" cannot create resource "pods/exec" in API group "" in the namespace "default""#,
            ),
            (
                attributes("list", "apps", "deployments", "", ""),
                "alice",
                r#"deployments.apps is forbidden: User "alice" cannot list resource "deployments" in API group "apps" at the cluster scope"#,
            ),
            (path("post", "/y"), "alice", r#"forbidden: User "alice" cannot post path "/y""#),
            (path("get", "/x"), "a&b", r#"forbidden: User "a&amp;b" cannot get path "/x""#),
        ];
        for (attributes, username, message) in table {
            let user = UserInfo { username: username.into(), ..UserInfo::default() };
            let status = attributes.forbidden(&user, "");
            assert_eq!((status.code, status.reason.as_str(), status.message.as_str()), (403, "Forbidden", message));
        }
    }

    #[test]
    fn a_refusal_names_its_reason_and_its_object() {
        let user = UserInfo { username: "u".into(), ..UserInfo::default() };
        let status = attributes("get", "apps", "deployments", "n", "d").forbidden(&user, "RBAC: <no>");
        assert!(status.message.ends_with(r#"in the namespace "n": RBAC: <no>"#), "{}", status.message);
        let details = status.details.unwrap();
        assert_eq!(
            (details.group.as_str(), details.kind.as_str(), details.name.as_str()),
            ("apps", "deployments", "d")
        );
    }
}
