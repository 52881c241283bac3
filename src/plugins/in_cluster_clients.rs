//! InClusterClients: points the in-cluster clients of pods at the proxy, in namespaces that ask for it. Kubernetes has no such plugin.

use crate::admission::{
    Attributes, BuildError, Denial, FrontEndSupport, Operations, Phases, Plugin, PluginEnvironment, Resources, Spec,
};
use crate::cluster::{AUTHORITY_CONFIG_MAP, Cluster, INJECT_LABEL, Need};
use crate::config::{OWN_API_VERSION, PluginConfiguration};
use crate::object::Object;
use crate::plugins::rules::pod::{WrongType, change_spec_list};
use crate::status::Status;
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "InClusterClients",
    default_on: false,
    phases: Phases::Mutating,
    operations: Operations::CREATE,
    resources: Resources::Only(&[("", "pods", "")]),
    needs: &[Need::NAMESPACES],
    configuration: Some("InClusterClientsConfiguration"),
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Points the in-cluster clients of pods at the proxy, in namespaces with the label inject.kube-admission-proxy.dev/clients=true.",
    build,
};

/// The variables from which in-cluster clients read the address of the API server.
const HOST: &str = "KUBERNETES_SERVICE_HOST";
const PORT: &str = "KUBERNETES_SERVICE_PORT";
/// The ConfigMap that kube-controller-manager publishes in every namespace.
const ROOT_CA: &str = "kube-root-ca.crt";
/// The annotation of a pod that a kubelet runs from a file (`v1.MirrorPodAnnotationKey`). No admission may change such a pod.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The configuration of the plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Configuration {
    /// The name or address of the proxy, for pods.
    pub(crate) host: String,
    /// The port of the proxy, for pods.
    pub(crate) port: u16,
    /// The authorities of the proxy's serving certificate; `None` if the cluster's own authority has signed it.
    pub(crate) authorities: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Fields {
    host: String,
    #[serde(default = "https")]
    port: u16,
    certificate_authority: Option<PathBuf>,
}

fn https() -> u16 {
    443
}

impl Configuration {
    /// Reads the configuration.
    ///
    /// # Errors
    /// If there is none, the kind is wrong, or a field is unknown, invalid or missing.
    pub(crate) fn read(given: Option<&PluginConfiguration>) -> Result<Self, BuildError> {
        let Some(given) = given else {
            return Err(BuildError::Unconfigured(
                "InClusterClients needs a configuration in --admission-control-config-file: the address of the proxy",
            ));
        };
        let fields: Fields = given.decode(OWN_API_VERSION, "InClusterClientsConfiguration")?;
        if fields.host.is_empty() || fields.port == 0 {
            return Err(given.invalid("host must not be empty, and port not 0"));
        }
        let authorities = fields.certificate_authority.map(|path| given.directory.join(path));
        Ok(Self { host: fields.host, port: fields.port, authorities })
    }
}

struct InClusterClients {
    cluster: Arc<Cluster>,
    configuration: Configuration,
}

fn build(environment: &PluginEnvironment<'_>) -> Result<Box<dyn Plugin>, BuildError> {
    let configuration = Configuration::read(environment.configuration)?;
    Ok(Box::new(InClusterClients { cluster: environment.cluster.clone(), configuration }))
}

#[async_trait]
impl Plugin for InClusterClients {
    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        if !self.is_wanted_in(&attributes.namespace).await? {
            return Ok(());
        }
        let Some(pod) = &mut attributes.object else { return Ok(()) };
        let declines = pod.label_texts().any(|(key, value)| key == INJECT_LABEL && value == "false");
        let is_mirror = pod.get(&["metadata", "annotations", MIRROR]).is_some();
        if declines || is_mirror {
            return Ok(());
        }
        self.inject(pod).map_err(|WrongType| Status::bad_request("the pod has a list of another type").into())
    }
}

impl InClusterClients {
    async fn is_wanted_in(&self, name: &str) -> Result<bool, Denial> {
        if !self.cluster.wait_synced().await {
            return Err(Denial::forbidden("not yet ready to handle request"));
        }
        let namespace = match self.cluster.namespace(name) {
            Some(namespace) => Some(namespace),
            None => self.cluster.live_namespace(name).await?,
        };
        Ok(namespace.is_some_and(|namespace| namespace.labels.get(INJECT_LABEL) == Some("true")))
    }

    fn inject(&self, pod: &mut Object) -> Result<(), WrongType> {
        for list in ["initContainers", "containers"] {
            change_spec_list(pod, list, |container| self.set_address(container))?;
        }
        match &self.configuration.authorities {
            Some(_) => change_spec_list(pod, "volumes", set_authorities),
            None => Ok(()),
        }
    }

    /// Sets the variables, unless the container sets one of them itself.
    fn set_address(&self, container: &mut Map<String, Value>) -> Result<(), WrongType> {
        let variables = match container.entry("env").or_insert_with(|| json!([])) {
            Value::Array(variables) => variables,
            null @ Value::Null => {
                *null = json!([]);
                null.as_array_mut().ok_or(WrongType)?
            }
            _ => return Err(WrongType),
        };
        let is_set = variables
            .iter()
            .filter_map(|variable| variable.get("name")?.as_str())
            .any(|name| [HOST, PORT].contains(&name));
        if !is_set {
            variables.push(json!({"name": HOST, "value": self.configuration.host}));
            variables.push(json!({"name": PORT, "value": self.configuration.port.to_string()}));
        }
        Ok(())
    }
}

/// Replaces the cluster's authority beside the token of the service account by the proxy's.
fn set_authorities(volume: &mut Map<String, Value>) -> Result<(), WrongType> {
    let Some(sources) = volume.get_mut("projected").and_then(|projected| projected.get_mut("sources")) else {
        return Ok(());
    };
    let sources = match sources {
        Value::Null => return Ok(()),
        sources => sources.as_array_mut().ok_or(WrongType)?,
    };
    if !sources.iter().any(|source| source.get("serviceAccountToken").is_some_and(Value::is_object)) {
        return Ok(());
    }
    for source in sources {
        if let Some(name) = source.pointer_mut("/configMap/name").filter(|name| **name == ROOT_CA) {
            *name = AUTHORITY_CONFIG_MAP.into();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{FixedState, Namespace};
    use crate::plugins::checker::{Checked, check};

    fn plugin(label: Option<&str>, authorities: Option<&str>) -> InClusterClients {
        let labels = label.map(|value| (INJECT_LABEL.to_owned(), value.to_owned())).into_iter().collect();
        let namespaces = vec![Namespace { name: "n".into(), labels, ..Namespace::default() }];
        InClusterClients {
            cluster: Cluster::fixed(FixedState { namespaces, ..FixedState::default() }),
            configuration: Configuration {
                host: "proxy".into(),
                port: 8443,
                authorities: authorities.map(PathBuf::from),
            },
        }
    }

    async fn created(plugin: &InClusterClients, pod: Value) -> Checked {
        check(plugin).create("", "pods", pod).await
    }

    fn pod(spec: Value) -> Value {
        json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec})
    }

    #[tokio::test]
    async fn containers_get_the_address_unless_they_have_one() {
        let plugin = plugin(Some("true"), None);
        let address = json!([{"name": HOST, "value": "proxy"}, {"name": PORT, "value": "8443"}]);
        let own = json!([{"name": HOST, "value": "elsewhere"}]);
        let given = json!({"initContainers": [{"name": "i", "env": null}], "containers": [{"name": "a"}, {"name": "b", "env": own}],
                           "volumes": [{"projected": {"sources": [{"serviceAccountToken": {}}, {"configMap": {"name": ROOT_CA}}]}}]});
        let mut wanted = given.clone();
        wanted["initContainers"][0]["env"] = address.clone();
        wanted["containers"][0]["env"] = address;
        created(&plugin, pod(given)).await.becomes(pod(wanted));
    }

    #[tokio::test]
    async fn the_authority_beside_a_token_becomes_the_proxys() {
        let plugin = plugin(Some("true"), Some("ca.crt"));
        let map = |name: &str| json!({"configMap": {"name": name, "items": [{"key": "ca.crt", "path": "ca.crt"}]}});
        let volumes = |name: &str| {
            json!({"volumes": [{"name": "kube-api-access", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}, map(name)]}},
                               {"name": "other", "projected": {"sources": [map(ROOT_CA)]}}, {"name": "empty", "emptyDir": {}}]})
        };
        created(&plugin, pod(volumes(ROOT_CA))).await.becomes(pod(volumes(AUTHORITY_CONFIG_MAP)));
    }

    #[tokio::test]
    async fn only_pods_of_labelled_namespaces_that_do_not_decline_are_changed() {
        let spec = || json!({"containers": [{"name": "a"}]});
        for label in [None, Some("false")] {
            created(&plugin(label, None), pod(spec())).await.stays_unchanged();
        }
        for metadata in [json!({"labels": {INJECT_LABEL: "false"}}), json!({"annotations": {MIRROR: "x"}})] {
            let mut declining = pod(spec());
            declining["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
            created(&plugin(Some("true"), None), declining).await.stays_unchanged();
        }
    }

    #[test]
    fn the_configuration_names_the_address() {
        let read = |mut fields: Value| {
            fields["apiVersion"] = OWN_API_VERSION.into();
            fields["kind"] = "InClusterClientsConfiguration".into();
            let given = PluginConfiguration { origin: "f.yaml".into(), directory: "/etc/proxy".into(), value: fields };
            Configuration::read(Some(&given)).map_err(|error| error.to_string())
        };
        let whole = read(json!({"host": "h", "certificateAuthority": "ca.crt"})).unwrap();
        assert_eq!(whole, Configuration { host: "h".into(), port: 443, authorities: Some("/etc/proxy/ca.crt".into()) });
        assert!(read(json!({"host": ""})).unwrap_err().starts_with("f.yaml: host must not be empty"));
        assert!(read(json!({"port": 1})).unwrap_err().contains("missing field `host`"));
        assert!(
            Configuration::read(None).unwrap_err().to_string().starts_with("InClusterClients needs a configuration")
        );
    }
}
