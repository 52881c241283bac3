//! `--controllers`: the controllers that run in the embedded API server, by the names of kube-controller-manager.

/// The controllers of the embedded API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Controllers {
    /// Deletes objects whose owners are deleted.
    pub(crate) garbage_collector: bool,
    /// Deletes the objects of a namespace that is deleted.
    pub(crate) namespace: bool,
    /// Creates the service account `default` of each namespace.
    pub(crate) service_account: bool,
    /// Creates the ConfigMap `kube-root-ca.crt` of each namespace.
    pub(crate) root_ca: bool,
}

/// The names of each controller: its name since Kubernetes 1.28, and the older alias.
const NAMES: [[&str; 2]; 4] = [
    ["garbage-collector-controller", "garbagecollector"],
    ["namespace-controller", "namespace"],
    ["serviceaccount-controller", "serviceaccount"],
    ["root-ca-certificate-publisher-controller", "root-ca-cert-publisher"],
];

/// A value of `--controllers` names no controller, with the text of kube-controller-manager.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UnknownController(String);

#[cfg(test)]
impl Controllers {
    /// No controller.
    pub(crate) const NONE: Self =
        Self { garbage_collector: false, namespace: false, service_account: false, root_ca: false };
}

impl Controllers {
    /// Every controller.
    pub(crate) const ALL: Self =
        Self { garbage_collector: true, namespace: true, service_account: true, root_ca: true };

    /// Parses the values of the flag (`IsControllerEnabled`): `*` for all controllers, a name, or `-` and a name for all others to stay as
    /// they are. A name counts more than `*`.
    ///
    /// # Errors
    /// If a controller is unknown.
    pub(crate) fn parse(values: &[String]) -> Result<Self, UnknownController> {
        for value in values.iter().filter(|value| *value != "*") {
            let name = value.strip_prefix('-').unwrap_or(value);
            if !NAMES.as_flattened().contains(&name) {
                return Err(UnknownController(format!(
                    "{name:?} is not in the list of known controllers: {}",
                    Self::aliases()
                )));
            }
        }
        let [garbage_collector, namespace, service_account, root_ca] = NAMES.map(|names| {
            let by_name = values.iter().find_map(|value| match value.strip_prefix('-') {
                Some(name) => names.contains(&name).then_some(false),
                None => names.contains(&value.as_str()).then_some(true),
            });
            by_name.unwrap_or_else(|| values.iter().any(|value| value == "*"))
        });
        Ok(Self { garbage_collector, namespace, service_account, root_ca })
    }

    fn aliases() -> String {
        NAMES.map(|[_, alias]| alias).join(", ")
    }
}

impl Default for Controllers {
    fn default() -> Self {
        Self::ALL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(values: &[&str]) -> Result<Controllers, String> {
        let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        Controllers::parse(&values).map_err(|why| why.to_string())
    }

    #[test]
    fn controllers_are_selected_as_in_kube_controller_manager() {
        assert_eq!(parse(&["*"]), Ok(Controllers::ALL));
        assert_eq!(parse(&[]), Ok(Controllers::NONE));
        assert_eq!(parse(&["*", "-namespace"]), Ok(Controllers { namespace: false, ..Controllers::ALL }));
        assert_eq!(parse(&["namespace-controller"]), Ok(Controllers { namespace: true, ..Controllers::NONE }));
        assert_eq!(
            parse(&["-garbagecollector", "*"]),
            Ok(Controllers { garbage_collector: false, ..Controllers::ALL })
        );
        let known = "garbagecollector, namespace, serviceaccount, root-ca-cert-publisher";
        assert_eq!(parse(&["-job"]), Err(format!(r#""job" is not in the list of known controllers: {known}"#)));
    }
}
