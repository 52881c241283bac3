//! Does the work of the controllers after writes ([`Task`]): the tasks of one write follow each other, those of
//! several writes run side by side.

use super::{api_services, definitions, kubernetes_service, namespaces};
use crate::embedded::store::{Task, Unkept, Work};
use crate::embedded::strategies::deletion::{Options, as_controller};

/// Does the tasks, and those that follow from them.
///
/// # Errors
/// If the file cannot be written.
pub(in crate::embedded) async fn finish(work: &Work) -> Result<(), Unkept> {
    while let Some(task) = work.next() {
        match task {
            Task::Delete { collection, key } => {
                as_controller(work, &collection, &key, None, &Options::default());
            }
            Task::Namespace(name) => namespaces::empty_namespace(work, &name).await?,
            Task::EmptyNamespace(name) => namespaces::finish_namespace(work, &name),
            Task::Definition(name) => definitions::empty_definition(work, &name).await?,
            Task::EmptyDefinition(name) => definitions::finish_definition(work, &name),
            Task::Names(group) => definitions::reconsider_names(work, &group).await?,
            Task::Registrations(group) => api_services::follow_definitions(work, &group).await?,
            Task::Availability(name) => api_services::check(work, &name),
            Task::Availabilities => api_services::check_all(work).await?,
            Task::KubernetesService => kubernetes_service::reconcile(work, false),
        }
        work.pause().await?;
    }
    Ok(())
}
