//! The objects of a kind that a view of a cluster has.

use super::cache::Projection;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A choice of the objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Only {
    /// No object.
    None,
    /// The objects with all these labels.
    Labelled(BTreeMap<String, String>),
}

type AnyList = Arc<dyn Any + Send + Sync>;

/// The objects with all these labels. The chosen list stays the same `Arc` until an object changes, as the whole list does.
#[derive(Debug)]
pub(super) struct Labelled {
    labels: BTreeMap<String, String>,
    /// The whole list, and what was chosen from it.
    last: Mutex<Option<(AnyList, AnyList)>>,
}

impl Labelled {
    pub(super) fn new(labels: BTreeMap<String, String>) -> Self {
        Self { labels, last: Mutex::default() }
    }

    /// Returns the chosen objects among all.
    pub(super) fn of<P: Projection>(&self, all: Arc<Vec<Arc<P>>>) -> Arc<Vec<Arc<P>>> {
        let whole: AnyList = all.clone();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, chosen)) = &*last
            && std::ptr::addr_eq(Arc::as_ptr(of), Arc::as_ptr(&whole))
            && let Ok(chosen) = chosen.clone().downcast::<Vec<Arc<P>>>()
        {
            return chosen;
        }
        let is_chosen = |object: &&Arc<P>| {
            let labels = object.labels();
            self.labels.iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
        };
        let chosen: Arc<Vec<Arc<P>>> = Arc::new(all.iter().filter(is_chosen).cloned().collect());
        *last = Some((whole, chosen.clone()));
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Cluster, FixedState, Need};
    use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
    use serde_json::{from_value, json};

    #[test]
    fn a_view_has_the_objects_with_the_labels_until_an_object_changes() {
        let hook = |name: &str, labels: serde_json::Value| {
            from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap()
        };
        let hooks = vec![
            hook("a", json!({"team": "blue", "x": "y"})),
            hook("b", json!({"team": "green"})),
            hook("c", json!({})),
        ];
        let cluster = Cluster::fixed(FixedState { validating_webhooks: hooks, ..FixedState::default() });
        let of = |labels: &[(&str, &str)]| {
            let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let view = cluster.view(&[(Need::VALIDATING_WEBHOOKS, Only::Labelled(labels))]);
            let all = view.all::<ValidatingWebhookConfiguration>();
            assert!(Arc::ptr_eq(&all, &view.all::<ValidatingWebhookConfiguration>()));
            all.iter().filter_map(|hook| hook.metadata.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(of(&[("team", "blue")]), ["a"]);
        assert_eq!(of(&[("team", "blue"), ("x", "z")]), Vec::<String>::new());
        assert_eq!(of(&[]), ["a", "b", "c"]);
        assert!(
            cluster.view(&[(Need::VALIDATING_WEBHOOKS, Only::None)]).all::<ValidatingWebhookConfiguration>().is_empty()
        );
    }
}
