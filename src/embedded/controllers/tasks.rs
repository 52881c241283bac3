//! Does the work of the controllers after writes ([`Task`]): the tasks of one write follow each other, those of
//! several writes run side by side.

use super::kubernetes_service;
use crate::embedded::store::{Task, Unkept, Work};
use crate::embedded::strategies::api_services;
use crate::embedded::strategies::definitions;
use crate::embedded::verbs::delete;

/// Does the tasks, and those that follow from them.
///
/// # Errors
/// If the file cannot be written.
pub(in crate::embedded) async fn finish(work: &Work) -> Result<(), Unkept> {
    while let Some(task) = work.next() {
        match task {
            Task::Delete { collection, key } => {
                delete::as_controller(work, &collection, &key, None, &delete::Options::default())
            }
            Task::Namespace(name) => delete::empty_namespace(work, &name).await?,
            Task::EmptyNamespace(name) => delete::finish_namespace(work, &name),
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
