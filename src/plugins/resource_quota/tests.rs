use super::*;
use crate::cluster::FixedState;
use crate::config::{FeatureGates, PluginConfiguration};
use crate::plugins::checker::attributes;
use crate::status::Status;
use futures_util::future::join_all;
use k8s_openapi::api::core::v1::ResourceQuota as Quota;
use k8s_openapi::api::resource::v1::DeviceClass;
use serde_json::{Value, json};

fn quota(name: &str, hard: Value, used: Value, spec: Value) -> Quota {
    let metadata = json!({"name": name, "namespace": "n", "resourceVersion": "1"});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": {"hard": hard, "used": used}})).unwrap()
}

/// A plugin and its cluster.
struct Counted {
    cluster: Arc<Cluster>,
    plugin: ResourceQuota,
}

fn plugin(cluster: &Arc<Cluster>, limited: Value) -> ResourceQuota {
    let value = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "ResourceQuotaConfiguration", "limitedResources": limited});
    let (origin, directory) = ("test".to_owned(), "/".into());
    let configuration = Configuration::read(Some(&PluginConfiguration { origin, directory, value })).unwrap();
    let gates = Gates::new(&FeatureGates::default());
    let queue = Queue::new(&crate::metrics::Registry::new()).unwrap();
    ResourceQuota::new(cluster.clone(), gates, configuration, &Limits::default(), queue)
}

fn limiting(limited: Value, quotas: Vec<Quota>) -> Counted {
    in_state(limited, FixedState::default().with::<Quota>(quotas))
}

fn in_state(limited: Value, state: FixedState) -> Counted {
    let cluster = Cluster::fixed(state);
    Counted { plugin: plugin(&cluster, limited), cluster }
}

fn with(quotas: Vec<Quota>) -> Counted {
    limiting(json!([]), quotas)
}

/// A plugin and a cluster with one quota without scopes.
fn one(hard: Value, used: Value) -> Counted {
    with(vec![quota("q", hard, used, json!({}))])
}

/// The usage in the quota's status at the API server.
async fn used(cluster: &Cluster, name: &str) -> Value {
    let quota = cluster.find_live::<Quota>("n", name).await.unwrap().unwrap();
    json!(quota.status.as_ref().unwrap().used)
}

async fn ask(plugin: &ResourceQuota, attributes: &Attributes) -> Result<(), Status> {
    plugin.validate(attributes).await.map_err(|denial| denial.into_status(attributes))
}

fn creating(resource: &str, mut object: Value) -> Attributes {
    object["metadata"] = json!({"name": "x", "namespace": "n"});
    let (group, resource) = resource.split_once('/').unwrap_or(("", resource));
    attributes(Operation::Create, group, resource, Some(object), None)
}

fn updating(resource: &str, mut old: Value, mut new: Value) -> Attributes {
    old["metadata"] = json!({"name": "x", "namespace": "n", "resourceVersion": "7"});
    new["metadata"] = old["metadata"].clone();
    attributes(Operation::Update, "", resource, Some(new), Some(old))
}

impl Counted {
    async fn asks(&self, attributes: Attributes) -> Result<(), Status> {
        ask(&self.plugin, &attributes).await
    }

    async fn creates(&self, resource: &str, object: Value) -> Result<(), Status> {
        self.asks(creating(resource, object)).await
    }

    /// The message of a refusal, without its common prefix.
    async fn refusal(&self, resource: &str, object: Value) -> Option<String> {
        let status = self.creates(resource, object).await.err()?;
        assert_eq!((status.code, &*status.reason), (403, "Forbidden"), "{status}");
        let (_, why) = status.message.split_once("\"x\" is forbidden: ").unwrap();
        Some(why.to_owned())
    }

    async fn used(&self) -> Value {
        used(&self.cluster, "q").await
    }
}

fn pod(requests: Value) -> Value {
    json!({"spec": {"containers": [{"name": "a", "resources": {"requests": requests}}]}})
}

#[tokio::test]
async fn a_created_object_is_charged() {
    let counted = one(json!({"pods": "2", "requests.cpu": "1"}), json!({"pods": "0", "requests.cpu": "0"}));
    counted.creates("pods", pod(json!({"cpu": "300m", "memory": "1Gi"}))).await.unwrap();
    assert_eq!(counted.used().await, json!({"pods": "1", "requests.cpu": "300m"}));
    counted.creates("pods", pod(json!({"cpu": "0.7"}))).await.unwrap();
    assert_eq!(counted.used().await, json!({"pods": "2", "requests.cpu": "1"}));
}

#[tokio::test]
async fn initializers_are_charged_for_what_they_add() {
    let hard = json!({"requests.cpu": "2", "requests.storage": "5Gi", "persistentvolumeclaims": "2"});
    let none = json!({"requests.cpu": "0", "requests.storage": "0", "persistentvolumeclaims": "0"});
    let counted = one(hard, none);
    let waiting = |mut attributes: Attributes| {
        let pending = json!({"pending": [{"name": "a.b.c"}]});
        match &mut attributes.old_object {
            Some(old) => assert!(Arc::make_mut(old).set(&["metadata", "initializers"], pending)),
            None => assert!(attributes.object.as_mut().unwrap().set(&["metadata", "initializers"], pending)),
        }
        attributes
    };
    let cpu = |amount: &str| pod(json!({"cpu": amount}));
    let claim = || json!({"spec": {"resources": {"requests": {"storage": "4Gi"}}}});
    counted.asks(waiting(creating("pods", cpu("500m")))).await.unwrap();
    counted.asks(waiting(creating("persistentvolumeclaims", claim()))).await.unwrap();
    let used = json!({"requests.cpu": "500m", "requests.storage": "0", "persistentvolumeclaims": "1"});
    assert_eq!(counted.used().await, used);
    counted.asks(waiting(updating("pods", cpu("500m"), cpu("1500m")))).await.unwrap();
    counted.asks(waiting(updating("persistentvolumeclaims", claim(), claim()))).await.unwrap();
    let used = json!({"requests.cpu": "1500m", "requests.storage": "4Gi", "persistentvolumeclaims": "1"});
    assert_eq!(counted.used().await, used);
    let exceeds = waiting(updating("pods", cpu("500m"), cpu("1500m")));
    assert_eq!(counted.asks(exceeds).await.unwrap_err().code, 403);
}

#[tokio::test]
async fn an_object_above_the_quota_is_refused_and_not_charged() {
    let hard = json!({"requests.cpu": "2", "pods": "5", "memory": "1Gi"});
    let used = json!({"requests.cpu": "1500m", "pods": "5", "memory": "0"});
    let counted = one(hard, used.clone());
    assert_eq!(
        counted.refusal("pods", pod(json!({"cpu": "1", "memory": "1Gi"}))).await.as_deref(),
        Some(
            "exceeded quota: q, requested: pods=1,requests.cpu=1, used: pods=5,requests.cpu=1500m, limited: pods=5,requests.cpu=2"
        )
    );
    assert_eq!(counted.used().await, used);
}

#[tokio::test]
async fn the_first_quota_that_is_exceeded_is_named_and_none_is_charged() {
    let full = |name: &str| quota(name, json!({"configmaps": "1"}), json!({"configmaps": "1"}), json!({}));
    let roomy = quota("a", json!({"count/configmaps": "5"}), json!({"count/configmaps": "0"}), json!({}));
    let counted = with(vec![full("c"), roomy, full("b")]);
    let why = "exceeded quota: b, requested: configmaps=1, used: configmaps=1, limited: configmaps=1";
    assert_eq!(counted.refusal("configmaps", json!({})).await.as_deref(), Some(why));
    assert_eq!(used(&counted.cluster, "a").await, json!({"count/configmaps": "0"}));
}

#[tokio::test]
async fn the_status_decides_and_what_the_object_does_not_take_may_be_exceeded() {
    let spec = json!({"hard": {"configmaps": "0"}});
    let counted =
        with(vec![quota("q", json!({"configmaps": "1", "pods": "0"}), json!({"configmaps": "0", "pods": "7"}), spec)]);
    counted.creates("configmaps", json!({})).await.unwrap();
    assert_eq!(counted.used().await, json!({"configmaps": "1", "pods": "7"}));
}

#[tokio::test]
async fn a_quota_without_a_count_refuses() {
    let counted = one(json!({"pods": "1", "cpu": "1", "secrets": "1"}), json!({"pods": "0"}));
    let why = "status unknown for quota: q, resources: cpu,pods";
    assert_eq!(counted.refusal("pods", pod(json!({"cpu": "1"}))).await.as_deref(), Some(why));
}

#[tokio::test]
async fn every_container_must_specify_the_resources_that_a_quota_counts() {
    let hard = json!({"limits.cpu": "9", "requests.memory": "9Gi", "requests.ephemeral-storage": "1", "pods": "9"});
    let counted =
        one(hard, json!({"limits.cpu": "0", "requests.memory": "0", "requests.ephemeral-storage": "0", "pods": "0"}));
    let said = json!({"limits": {"cpu": "1"}, "requests": {"memory": "1"}});
    let spec = json!({"containers": [{"name": "b"}, {"name": "c", "resources": said}],
        "initContainers": [{"name": "a", "resources": {"requests": {"memory": "1"}}}]});
    let why = "failed quota: q: must specify limits.cpu for: a,b; requests.memory for: b";
    assert_eq!(counted.refusal("pods", json!({ "spec": spec })).await.as_deref(), Some(why));
    // Containers may omit the resources that the pod specifies at pod level.
    let mut spec = spec;
    spec["resources"] = json!({"requests": {"memory": "1Gi"}});
    assert_eq!(counted.refusal("pods", json!({ "spec": spec })).await, None);
    assert_eq!(counted.used().await["requests.memory"], "1Gi");
}

#[tokio::test]
async fn negative_usage_is_refused() {
    let counted = one(json!({"pods": "1"}), json!({"pods": "0"}));
    let why = "quota usage is negative for resource(s): cpu,requests.cpu";
    assert_eq!(counted.refusal("pods", pod(json!({"cpu": "-1"}))).await.as_deref(), Some(why));
}

#[tokio::test]
async fn an_update_is_charged_by_what_it_adds() {
    let hard = json!({"services": "1", "services.nodeports": "2"});
    let counted = one(hard, json!({"services": "1", "services.nodeports": "0"}));
    let service = |kind: &str, ports: usize| json!({"spec": {"type": kind, "ports": vec![json!({}); ports]}});
    counted.asks(updating("services", service("ClusterIP", 2), service("NodePort", 2))).await.unwrap();
    assert_eq!(counted.used().await, json!({"services": "1", "services.nodeports": "2"}));
    let refused = counted.asks(updating("services", service("NodePort", 2), service("NodePort", 3))).await.unwrap_err();
    assert_eq!(
        refused.message,
        "services \"x\" is forbidden: exceeded quota: q, requested: services.nodeports=1, used: services.nodeports=2, \
         limited: services.nodeports=2"
    );
    // The controller subtracts released usage, not the plugin.
    counted.asks(updating("services", service("NodePort", 2), service("ClusterIP", 2))).await.unwrap();
    assert_eq!(counted.used().await, json!({"services": "1", "services.nodeports": "2"}));
}

fn claim(storage: &str) -> Value {
    json!({"spec": {"resources": {"requests": {"storage": storage}}}})
}

#[tokio::test]
async fn an_update_that_takes_less_passes_a_quota_that_is_exceeded() {
    let counted = one(json!({"requests.storage": "5Gi"}), json!({"requests.storage": "20Gi"}));
    counted.asks(updating("persistentvolumeclaims", claim("10Gi"), claim("5Gi"))).await.unwrap();
    counted.asks(updating("persistentvolumeclaims", claim("10Gi"), claim("10Gi"))).await.unwrap();
    let refused = counted.asks(updating("persistentvolumeclaims", claim("10Gi"), claim("11Gi"))).await.unwrap_err();
    let why = "exceeded quota: q, requested: requests.storage=1Gi, used: requests.storage=20Gi, limited: requests.storage=5Gi";
    assert_eq!(refused.message, format!("persistentvolumeclaims \"x\" is forbidden: {why}"));
    assert_eq!(counted.used().await, json!({"requests.storage": "20Gi"}));
}

#[tokio::test]
async fn an_update_of_what_is_not_stored_yet_is_charged_in_full() {
    let counted = one(json!({"requests.storage": "20Gi"}), json!({"requests.storage": "0"}));
    let mut attributes = updating("persistentvolumeclaims", claim("10Gi"), claim("10Gi"));
    attributes.old_object = Object::from_value(claim("10Gi")).map(Arc::new);
    counted.asks(attributes).await.unwrap();
    assert_eq!(counted.used().await, json!({"requests.storage": "10Gi"}));
    let mut attributes = updating("persistentvolumeclaims", claim("1Gi"), claim("1Gi"));
    attributes.old_object = None;
    let refused = counted.asks(attributes).await.unwrap_err();
    let why = "unable to get previous usage since prior version of object was not found";
    assert_eq!(refused.message, format!("persistentvolumeclaims \"x\" is forbidden: {why}"));
}

#[tokio::test]
async fn an_object_that_enters_a_scope_is_charged_in_full() {
    let scopes = json!({"scopes": ["Terminating"]});
    let counted = with(vec![quota("q", json!({"pods": "1"}), json!({"pods": "0"}), scopes)]);
    let ending = json!({"spec": {"activeDeadlineSeconds": 5}});
    counted.asks(updating("pods", json!({}), ending.clone())).await.unwrap();
    assert_eq!(counted.used().await, json!({"pods": "1"}));
    assert!(counted.asks(updating("pods", json!({}), ending.clone())).await.is_err());
    // An update within the scope changes nothing, and an update that leaves the scope returns nothing.
    counted.asks(updating("pods", ending.clone(), json!({"spec": {"activeDeadlineSeconds": 1}}))).await.unwrap();
    counted.asks(updating("pods", ending, json!({}))).await.unwrap();
    assert_eq!(counted.used().await, json!({"pods": "1"}));
}

#[tokio::test]
async fn a_resize_is_charged_by_what_it_adds() {
    let counted = one(json!({"requests.cpu": "3"}), json!({"requests.cpu": "1"}));
    let resize = |from: &str, to: &str| {
        let mut attributes = updating("pods", pod(json!({ "cpu": from })), pod(json!({ "cpu": to })));
        attributes.subresource = "resize".to_owned();
        attributes
    };
    counted.asks(resize("1", "3")).await.unwrap();
    assert_eq!(counted.used().await, json!({"requests.cpu": "3"}));
    let refused = counted.asks(resize("3", "4")).await.unwrap_err();
    assert!(refused.message.ends_with("requested: requests.cpu=1, used: requests.cpu=3, limited: requests.cpu=3"));
}

#[tokio::test]
async fn only_objects_in_its_scopes_are_charged_to_a_quota() {
    let of = |name: &str, spec: Value| quota(name, json!({"pods": "9"}), json!({"pods": "0"}), spec);
    let class = |operator: &str, values: Value| {
        let expression = json!({"scopeName": "PriorityClass", "operator": operator, "values": values});
        json!({"scopeSelector": {"matchExpressions": [expression]}})
    };
    let counted = with(vec![
        of("best-effort", json!({"scopes": ["BestEffort"]})),
        of("burstable", json!({"scopes": ["NotBestEffort"]})),
        of("both", json!({"scopes": ["BestEffort", "Terminating"]})),
        of("high", class("In", json!(["high"]))),
        of("not-high", class("NotIn", json!(["high"]))),
        of("classless", class("DoesNotExist", json!([]))),
    ]);
    let pods = [
        json!({"spec": {"priorityClassName": "high"}}),
        json!({"spec": {"activeDeadlineSeconds": 1, "priorityClassName": "low"}}),
        pod(json!({"cpu": "1"})),
    ];
    for pod in pods {
        counted.creates("pods", pod).await.unwrap();
    }
    for (name, want) in
        [("best-effort", "2"), ("burstable", "1"), ("both", "1"), ("high", "1"), ("not-high", "2"), ("classless", "1")]
    {
        assert_eq!(used(&counted.cluster, name).await, json!({ "pods": want }), "{name}");
    }
}

#[tokio::test]
async fn a_scope_that_cannot_be_asked_is_no_refusal_but_an_error() {
    let expression = json!({"scopeName": "PriorityClass", "operator": "In", "values": ["x".repeat(64)]});
    let spec = json!({"scopeSelector": {"matchExpressions": [expression]}});
    let counted = with(vec![quota("q", json!({"pods": "1"}), json!({"pods": "0"}), spec)]);
    let status = counted.creates("pods", json!({})).await.unwrap_err();
    assert_eq!((status.code, &*status.reason), (500, ""));
    let begins = "error matching scopes of quota q, err: error on matching scope {PriorityClass In [xxx";
    assert!(status.message.starts_with(begins), "{}", status.message);
    // Other objects have no priority class.
    counted.creates("configmaps", json!({})).await.unwrap();
}

#[tokio::test]
async fn scopes_are_of_pods_and_volume_claims_only() {
    let scopes = json!({"scopes": ["NotTerminating"]});
    let counted = with(vec![quota("q", json!({"configmaps": "0"}), json!({"configmaps": "0"}), scopes)]);
    counted.creates("configmaps", json!({})).await.unwrap();
    let class = json!({"scopeName": "VolumeAttributesClass", "operator": "Exists"});
    let spec = json!({"scopeSelector": {"matchExpressions": [class]}});
    let name = "persistentvolumeclaims";
    let counted = with(vec![quota("q", json!({ name: "0" }), json!({ name: "0" }), spec)]);
    counted.creates(name, json!({})).await.unwrap();
    let gold = json!({"spec": {"volumeAttributesClassName": "gold"}});
    assert!(counted.refusal(name, gold).await.unwrap().starts_with("exceeded quota: q"));
}

#[tokio::test]
async fn a_limited_resource_needs_a_quota_that_covers_it() {
    let limited = json!([{"resource": "pods", "matchContains": ["cpu"]}]);
    let none = || limiting(limited.clone(), vec![]);
    let why = "insufficient quota to consume: cpu,requests.cpu";
    assert_eq!(none().refusal("pods", pod(json!({"cpu": "1"}))).await.as_deref(), Some(why));
    assert_eq!(none().refusal("pods", pod(json!({"memory": "1"}))).await, None);
    assert_eq!(none().refusal("pods", pod(json!({"cpu": "0"}))).await, None);
    assert_eq!(none().refusal("configmaps", json!({})).await, None);
    let half = quota("q", json!({"cpu": "1"}), json!({"cpu": "0"}), json!({}));
    let other = quota("r", json!({"requests.cpu": "1"}), json!({"requests.cpu": "0"}), json!({}));
    let counted = limiting(limited.clone(), vec![half.clone()]);
    let why = "insufficient quota to consume: requests.cpu";
    assert_eq!(counted.refusal("pods", pod(json!({"cpu": "1"}))).await.as_deref(), Some(why));
    let counted = limiting(limited.clone(), vec![half, other]);
    assert_eq!(counted.refusal("pods", pod(json!({"cpu": "1"}))).await, None);
    assert_eq!(counted.used().await, json!({"cpu": "1"}));
}

#[tokio::test]
async fn limits_are_of_one_group_and_of_any_resource_in_it() {
    let limited = json!([{"apiGroup": "x.io", "resource": "things", "matchContains": ["count/"]}]);
    let counted = limiting(limited, vec![]);
    let why = "insufficient quota to consume: count/things.x.io";
    assert_eq!(counted.refusal("x.io/things", json!({})).await.as_deref(), Some(why));
    assert_eq!(counted.refusal("y.io/things", json!({})).await, None);
}

#[tokio::test]
async fn a_limited_scope_needs_a_quota_in_that_scope() {
    let scope = |values: Value| json!({"scopeName": "PriorityClass", "operator": "In", "values": values});
    // The configured resource does not matter for scopes.
    let limited =
        json!([{"resource": "configmaps", "matchScopes": [scope(json!(["high", "higher"])), scope(json!(["high"]))]}]);
    let counted = limiting(limited.clone(), vec![]);
    let high = json!({"spec": {"priorityClassName": "high"}});
    let status = counted.creates("pods", high.clone()).await.unwrap_err();
    let why = "insufficient quota to match these scopes: [{PriorityClass In [high higher]} {PriorityClass In [high]}]";
    assert_eq!((status.code, &*status.reason, &*status.message), (500, "", why));
    counted.creates("pods", json!({"spec": {"priorityClassName": "low"}})).await.unwrap();
    counted.creates("configmaps", json!({})).await.unwrap();
    let covering = quota("q", json!({"pods": "1"}), json!({"pods": "0"}), json!({"scopes": ["PriorityClass"]}));
    let counted = limiting(limited, vec![covering]);
    counted.creates("pods", high.clone()).await.unwrap();
    assert!(counted.refusal("pods", high).await.unwrap().starts_with("exceeded quota: q"));
}

#[tokio::test]
async fn allocated_storage_is_charged_above_the_limits() {
    let counted = one(json!({"requests.storage": "10Gi"}), json!({"requests.storage": "10Gi"}));
    let allocated = |spec: &str, allocated: &str| {
        let mut claim = claim(spec);
        claim["status"] = json!({"allocatedResources": {"storage": allocated}});
        claim
    };
    let through = |subresource: &str, old: Value, new: Value| {
        let mut attributes = updating("persistentvolumeclaims", old, new);
        attributes.subresource = subresource.to_owned();
        attributes
    };
    // The API server does not store other fields of a status update.
    counted.asks(through("status", claim("10Gi"), allocated("99Gi", "12Gi"))).await.unwrap();
    assert_eq!(counted.used().await, json!({"requests.storage": "12Gi"}));
    // The API server does not store the status of other updates.
    let stored = allocated("10Gi", "12Gi");
    counted.asks(through("", stored.clone(), allocated("10Gi", "99Gi"))).await.unwrap();
    counted.asks(through("", stored, claim("11Gi"))).await.unwrap();
    assert_eq!(counted.used().await, json!({"requests.storage": "12Gi"}));
}

#[tokio::test]
async fn a_dry_run_is_checked_and_not_charged() {
    let counted = one(json!({"configmaps": "1"}), json!({"configmaps": "0"}));
    let rehearsal = || Attributes { dry_run: true, ..creating("configmaps", json!({})) };
    counted.asks(rehearsal()).await.unwrap();
    assert_eq!(counted.used().await, json!({"configmaps": "0"}));
    counted.creates("configmaps", json!({})).await.unwrap();
    assert_eq!(counted.asks(rehearsal()).await.unwrap_err().code, 403);
}

#[tokio::test]
async fn any_resource_is_counted_by_number_on_create_alone() {
    let hard = json!({"count/things.x.io": "1", "secrets": "1", "count/secrets": "2"});
    let counted = one(hard, json!({"count/things.x.io": "0", "secrets": "0", "count/secrets": "0"}));
    counted.creates("x.io/things", json!({})).await.unwrap();
    counted.creates("secrets", json!({})).await.unwrap();
    counted.asks(updating("secrets", json!({}), json!({"data": {}}))).await.unwrap();
    assert_eq!(counted.used().await, json!({"count/things.x.io": "1", "secrets": "1", "count/secrets": "1"}));
    assert!(counted.refusal("x.io/things", json!({})).await.is_some());
}

#[tokio::test]
async fn devices_are_charged_by_class() {
    let name = "gpu.deviceclass.resource.k8s.io/devices";
    let class = json!({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "x.com/gpu"}});
    let quota = quota(
        "q",
        json!({ name: "2", "requests.x.com/gpu": "9" }),
        json!({ name: "0", "requests.x.com/gpu": "0" }),
        json!({}),
    );
    let state = FixedState::default().with::<Quota>(vec![quota]);
    let counted = in_state(json!([]), state.with::<DeviceClass>(vec![serde_json::from_value(class).unwrap()]));
    let exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2});
    let claim = json!({"spec": {"devices": {"requests": [{ "exactly": exactly }]}}});
    counted.creates("resource.k8s.io/resourceclaims", claim.clone()).await.unwrap();
    assert_eq!(counted.used().await, json!({ name: "2", "requests.x.com/gpu": "2" }));
    assert!(counted.refusal("resource.k8s.io/resourceclaims", claim).await.unwrap().starts_with("exceeded quota: q"));
}

#[tokio::test]
async fn cluster_scoped_objects_are_not_counted() {
    let limited = json!([{"resource": "namespaces", "matchContains": ["count"]}, {"resource": "nodes", "matchContains": ["count"]},
        {"resource": "events", "matchContains": ["count"]}]);
    let counted = limiting(limited, vec![]);
    let mut namespace = attributes(Operation::Create, "", "namespaces", Some(json!({"metadata": {"name": "n"}})), None);
    namespace.kind.group = String::new();
    counted.asks(namespace).await.unwrap();
    let node = attributes(Operation::Create, "", "nodes", Some(json!({"metadata": {"name": "n"}})), None);
    counted.asks(node).await.unwrap();
    counted.creates("events", json!({})).await.unwrap();
}

#[tokio::test]
async fn values_of_wrong_types_are_not_counted() {
    let hard = json!({"pods": "9", "persistentvolumeclaims": "9", "services": "9"});
    let counted = one(hard, json!({"pods": "0", "persistentvolumeclaims": "0", "services": "0"}));
    for resource in ["pods", "persistentvolumeclaims", "services"] {
        counted.creates(resource, json!({"spec": "x", "status": []})).await.unwrap();
        counted
            .creates(resource, json!({"spec": {"containers": "x", "resources": 1, "ports": {}, "type": []}}))
            .await
            .unwrap();
    }
    assert_eq!(counted.used().await, json!({"pods": "2", "persistentvolumeclaims": "2", "services": "2"}));
}

fn conflict() -> Status {
    Status::conflict("", "resourcequotas", "q", "busy")
}

fn empty(name: &str) -> Quota {
    quota(name, json!({"configmaps": "2"}), json!({"configmaps": "0"}), json!({}))
}

/// The quota after another writer's update.
fn charged(name: &str, count: &str) -> Quota {
    let mut quota = quota(name, json!({"configmaps": "2"}), json!({ "configmaps": count }), json!({}));
    quota.metadata.resource_version = Some("5".to_owned());
    quota
}

#[tokio::test]
async fn after_a_conflict_the_quota_is_read_anew() {
    let state = || FixedState::default().with::<Quota>(vec![empty("q")]);
    let counted = in_state(json!([]), state().live::<Quota>(vec![charged("q", "1")]));
    counted.creates("configmaps", json!({})).await.unwrap();
    assert_eq!(counted.used().await, json!({"configmaps": "2"}));
    let counted = in_state(json!([]), state().live::<Quota>(vec![charged("q", "2")]));
    let why = "exceeded quota: q, requested: configmaps=1, used: configmaps=2, limited: configmaps=2";
    assert_eq!(counted.refusal("configmaps", json!({})).await.as_deref(), Some(why));
    // A deleted quota does not limit.
    let counted = in_state(json!([]), state().live::<Quota>(vec![]));
    counted.creates("configmaps", json!({})).await.unwrap();
}

#[tokio::test]
async fn a_quota_that_cannot_be_written_four_times_refuses_with_the_last_reason() {
    let state = |refused: Vec<Status>| {
        FixedState { refused_updates: refused, ..FixedState::default() }.with::<Quota>(vec![empty("q")])
    };
    let counted = in_state(json!([]), state(vec![conflict(); 3]));
    counted.creates("configmaps", json!({})).await.unwrap();
    assert_eq!(counted.used().await, json!({"configmaps": "1"}));
    let last = Status::service_unavailable("away");
    let counted = in_state(json!([]), state(vec![conflict(), conflict(), conflict(), last.clone()]));
    assert_eq!(counted.creates("configmaps", json!({})).await, Err(last));
    assert_eq!(counted.used().await, json!({"configmaps": "0"}));
}

#[tokio::test]
async fn a_conflict_of_one_quota_does_not_charge_another_twice() {
    let other = quota("z", json!({"count/configmaps": "2"}), json!({"count/configmaps": "0"}), json!({}));
    let mut newer = other.clone();
    newer.metadata.resource_version = Some("5".to_owned());
    let state = FixedState::default().with::<Quota>(vec![empty("q"), other]);
    let state = state.live::<Quota>(vec![empty("q"), newer]);
    // A resource that the first quota covers stays covered.
    let counted = in_state(json!([{"resource": "configmaps", "matchContains": ["configmaps"]}]), state);
    counted.creates("configmaps", json!({})).await.unwrap();
    assert_eq!(counted.used().await, json!({"configmaps": "1"}));
    assert_eq!(used(&counted.cluster, "z").await, json!({"count/configmaps": "1"}));
}

#[tokio::test]
async fn a_refused_request_stays_refused_when_others_are_retried() {
    let full = quota("full", json!({"secrets": "0"}), json!({"secrets": "0"}), json!({}));
    let state = FixedState { refused_updates: vec![conflict()], ..FixedState::default() };
    let counted = in_state(json!([]), state.with::<Quota>(vec![full, empty("q")]));
    let answers = join_all([counted.creates("secrets", json!({})), counted.creates("configmaps", json!({}))]).await;
    assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true]);
    assert_eq!(counted.used().await, json!({"configmaps": "1"}));
}

#[tokio::test]
async fn waiting_requests_are_charged_with_one_write() {
    let counted = one(json!({"configmaps": "7"}), json!({"configmaps": "0"}));
    let answers = join_all((0..10).map(|_| counted.creates("configmaps", json!({})))).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 7);
    assert_eq!(counted.used().await, json!({"configmaps": "7"}));
    let quota = counted.cluster.find_live::<Quota>("n", "q").await.unwrap().unwrap();
    assert_eq!(quota.metadata.resource_version.as_deref(), Some("2"));
}

#[tokio::test]
async fn a_cache_that_lags_behind_costs_no_charge_and_no_conflict() {
    let state = FixedState::default().with::<Quota>(vec![empty("q")]).live::<Quota>(vec![empty("q")]);
    let counted = in_state(json!([]), state);
    for _ in 0..2 {
        counted.creates("configmaps", json!({})).await.unwrap();
    }
    assert!(counted.refusal("configmaps", json!({})).await.is_some());
    assert_eq!(counted.used().await, json!({"configmaps": "2"}));
}

#[tokio::test]
async fn a_cache_that_has_caught_up_is_believed() {
    let counted = one(json!({"configmaps": "2"}), json!({"configmaps": "0"}));
    counted.creates("configmaps", json!({})).await.unwrap();
    // The controller recomputes the usage.
    let read = counted.cluster.find::<Quota>("n", "q").unwrap();
    let mut recounted = Quota::clone(&read);
    recounted.status.as_mut().unwrap().used.as_mut().unwrap().insert("configmaps".into(), Default::default());
    counted.cluster.update_quota_status(&recounted).await.unwrap();
    for _ in 0..2 {
        counted.creates("configmaps", json!({})).await.unwrap();
    }
    assert!(counted.refusal("configmaps", json!({})).await.is_some());
}

#[tokio::test]
async fn several_proxies_fill_a_quota_exactly() {
    const ROOM: usize = 20;
    let empty = || quota("q", json!({"configmaps": ROOM.to_string()}), json!({"configmaps": "0"}), json!({}));
    // The replicas' caches never receive updates.
    let cluster = Cluster::fixed(FixedState::default().with::<Quota>(vec![empty()]).live::<Quota>(vec![empty()]));
    let replicas: Vec<ResourceQuota> = (0..3).map(|_| plugin(&cluster, json!([]))).collect();
    let mut accepted = 0;
    for _ in 0..ROOM {
        let asked =
            replicas.iter().map(|replica| async move { ask(replica, &creating("configmaps", json!({}))).await });
        for answer in join_all(asked).await {
            match answer {
                Ok(()) => accepted += 1,
                Err(status) => assert_eq!(status.code, 403, "{status}"),
            }
        }
    }
    assert_eq!(accepted, ROOM);
    assert_eq!(used(&cluster, "q").await, json!({"configmaps": ROOM.to_string()}));
}

#[tokio::test]
async fn quotas_that_the_cache_lacks_are_read_from_the_api_server() {
    let state = || FixedState { unsynced: true, ..FixedState::default() }.with::<Quota>(vec![]);
    let counted = in_state(json!([]), state().live::<Quota>(vec![empty("q")]));
    for _ in 0..2 {
        counted.creates("configmaps", json!({})).await.unwrap();
    }
    assert!(counted.refusal("configmaps", json!({})).await.is_some());
    // A cache with a first list is used.
    let state = FixedState::default().with::<Quota>(vec![]).live::<Quota>(vec![charged("q", "2")]);
    in_state(json!([]), state).creates("configmaps", json!({})).await.unwrap();
}

#[tokio::test]
async fn the_plugin_reads_the_stored_object_if_a_quota_may_count_it() {
    let looks = |counted: &Counted, attributes: Attributes| counted.plugin.reads_stored_object(&attributes);
    let counted = with(vec![empty("q")]);
    assert!(looks(&counted, creating("configmaps", json!({}))));
    assert!(!looks(&counted, Attributes { dry_run: true, ..creating("configmaps", json!({})) }));
    assert!(!looks(&counted, creating("secrets", json!({}))));
    assert!(!looks(&counted, creating("events", json!({}))));
    assert!(!looks(&counted, updating("configmaps", json!({}), json!({}))));
    assert!(!looks(&with(vec![]), creating("configmaps", json!({}))));
    let limited = json!([{"resource": "pods", "matchContains": ["cpu"]}]);
    assert!(looks(&limiting(limited, vec![]), creating("pods", json!({}))));
    let unsynced = FixedState { unsynced: true, ..FixedState::default() }.with::<Quota>(vec![]);
    assert!(looks(&in_state(json!([]), unsynced), creating("pods", json!({}))));
}

#[test]
fn only_a_request_that_a_quota_may_count_has_side_effects() {
    let Counted { plugin, .. } = one(json!({"pods": "1"}), json!({"pods": "0"}));
    assert!(plugin.has_side_effects(&creating("pods", json!({}))));
    assert!(!plugin.has_side_effects(&creating("events", json!({}))));
    let elsewhere = Attributes { namespace: "other".into(), ..creating("pods", json!({})) };
    assert!(!plugin.has_side_effects(&elsewhere));
}
