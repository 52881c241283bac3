//! AlwaysPullImages: makes every container of a new pod pull its image, so that a pod cannot run an image that another tenant
//! left on the node.

use crate::admission::{Attributes, Denial, FrontEndSupport, Operation, Operations, Phases, Plugin, Resources, Spec};
use crate::object::Object;
use crate::plugins::rules::pod::{CONTAINER_LISTS, WrongType, change_spec_list, spec_list};
use crate::status::Status;
use crate::status::invalid::aggregate;
use async_trait::async_trait;
use serde_json::{Map, Value};
use std::collections::HashSet;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "AlwaysPullImages",
    default_on: false,
    phases: Phases::Both,
    operations: Operations::CREATE.or(Operations::UPDATE),
    resources: Resources::Only(&[("", "pods", "")]),
    needs: &[],
    configuration: None,
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Sets imagePullPolicy to Always in every container of a pod.",
    build: |_| Ok(Box::new(AlwaysPullImages)),
};

struct AlwaysPullImages;

const ALWAYS: &str = "Always";

#[async_trait]
impl Plugin for AlwaysPullImages {
    async fn admit(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        if is_update_with_no_new_images(attributes) {
            return Ok(());
        }
        let pod = attributes.object.as_mut().ok_or_else(not_a_pod)?;
        pull_always(pod).map_err(|WrongType| not_a_pod())
    }

    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        if is_update_with_no_new_images(attributes) {
            return Ok(());
        }
        let pod = attributes.object.as_ref().ok_or_else(not_a_pod)?;
        let offenders = offenders(pod).map_err(|WrongType| not_a_pod())?;
        let errors = offenders.into_iter().map(|(path, policy)| {
            let field_error = format!("{path}: Unsupported value: {policy:?}: supported values: {ALWAYS:?}");
            Denial::forbidden(field_error).into_status(attributes).message
        });
        // In kube-apiserver, an aggregate is not a Status, and so becomes a 500.
        aggregate(errors).map_or(Ok(()), |errors| Err(Denial::Plain(errors)))
    }
}

fn not_a_pod() -> Denial {
    Status::bad_request("Resource was marked with kind Pod but was unable to be converted").into()
}

fn pull_always(pod: &mut Object) -> Result<(), WrongType> {
    for list in CONTAINER_LISTS {
        change_spec_list(pod, list, |container| {
            container.insert("imagePullPolicy".into(), ALWAYS.into());
            Ok(())
        })?;
    }
    change_spec_list(pod, "volumes", |volume| {
        match volume.get_mut("image") {
            None | Some(Value::Null) => {}
            Some(image) => {
                image.as_object_mut().ok_or(WrongType)?.insert("pullPolicy".into(), ALWAYS.into());
            }
        }
        Ok(())
    })
}

/// The path and value of each pull policy that is not `Always`.
fn offenders(pod: &Object) -> Result<Vec<(String, String)>, WrongType> {
    let mut found = Vec::new();
    let mut look = |path: String, holder: &Map<String, Value>, field: &str| {
        let policy = holder.get(field).and_then(Value::as_str).unwrap_or_default();
        if policy != ALWAYS {
            found.push((format!("{path}.{field}"), policy.to_owned()));
        }
    };
    for list in CONTAINER_LISTS {
        for (i, container) in spec_list(pod, list)?.into_iter().enumerate() {
            look(format!("spec.{list}[{i}]"), container, "imagePullPolicy");
        }
    }
    for (i, volume) in spec_list(pod, "volumes")?.into_iter().enumerate() {
        if let Some(image) = volume.get("image").filter(|image| !image.is_null()) {
            look(format!("spec.volumes[{i}].image"), image.as_object().ok_or(WrongType)?, "pullPolicy");
        }
    }
    Ok(found)
}

/// `isUpdateWithNoNewImages`: compares the sets of images, regardless of containers.
fn is_update_with_no_new_images(attributes: &Attributes) -> bool {
    if attributes.operation != Operation::Update {
        return false;
    }
    let (Some(new), Some(old)) = (&attributes.object, &attributes.old_object) else { return false };
    match (images(new), images(old)) {
        (Ok(new), Ok(old)) => new.is_subset(&old),
        _ => false,
    }
}

fn images(pod: &Object) -> Result<HashSet<&str>, WrongType> {
    let mut images = HashSet::new();
    for list in CONTAINER_LISTS {
        for container in spec_list(pod, list)? {
            images.insert(container.get("image").and_then(Value::as_str).unwrap_or_default());
        }
    }
    Ok(images)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::checker::check;
    use serde_json::json;

    fn pod(policy: &str) -> Value {
        json!({"metadata": {"name": "p"}, "spec": {
            "initContainers": [{"name": "i", "image": "i", "imagePullPolicy": policy}],
            "containers": [{"name": "c", "image": "c", "imagePullPolicy": policy}],
            "ephemeralContainers": [{"name": "e", "image": "e", "imagePullPolicy": policy}],
            "volumes": [{"name": "empty", "emptyDir": {}}, {"name": "v", "image": {"reference": "v", "pullPolicy": policy}}],
        }})
    }

    #[tokio::test]
    async fn sets_the_policy_of_every_container_and_image_volume() {
        check(&AlwaysPullImages).create("", "pods", pod("IfNotPresent")).await.becomes(pod("Always"));
    }

    #[tokio::test]
    async fn lists_every_offender_in_one_error_that_is_no_status() {
        let checked = check(&AlwaysPullImages).validating().create("", "pods", pod("Never")).await;
        let error = |path: &str| {
            format!("pods \"p\" is forbidden: {path}: Unsupported value: \"Never\": supported values: \"Always\"")
        };
        let all = [
            error("spec.initContainers[0].imagePullPolicy"),
            error("spec.containers[0].imagePullPolicy"),
            error("spec.ephemeralContainers[0].imagePullPolicy"),
            error("spec.volumes[1].image.pullPolicy"),
        ];
        checked.was_refused(500, &format!("[{}]", all.join(", ")));
    }

    #[tokio::test]
    async fn leaves_an_update_alone_that_brings_no_new_image() {
        check(&AlwaysPullImages).update("", "pods", pod("Never"), pod("IfNotPresent")).await.stays_unchanged();
    }

    #[tokio::test]
    async fn sets_the_policy_when_an_update_brings_a_new_image() {
        let old = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"image": "a"}]}});
        let new = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"image": "b"}]}});
        let want =
            json!({"metadata": {"name": "p"}, "spec": {"containers": [{"image": "b", "imagePullPolicy": "Always"}]}});
        check(&AlwaysPullImages).update("", "pods", old, new).await.becomes(want);
    }

    #[tokio::test]
    async fn refuses_what_is_no_pod() {
        for spec in
            [json!("text"), json!({"containers": {}}), json!({"containers": ["c"]}), json!({"volumes": [{"image": 1}]})]
        {
            let checked =
                check(&AlwaysPullImages).create("", "pods", json!({"metadata": {"name": "p"}, "spec": spec})).await;
            checked.was_refused(400, "Resource was marked with kind Pod but was unable to be converted");
        }
    }
}
