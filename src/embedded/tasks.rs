//! Does what writes leave to the controllers ([`Task`]): the tasks of one write follow each other, those of several writes run side by side.

use super::store::{Store, Task, Unkept, Work, Writer};
use super::{api_services, custom, delete, kubernetes_service};
use std::sync::Arc;

/// Does tasks of a write and those that follow from them, in a task of the runtime that goes on if the client doesn't wait. A failure of the file
/// ends them; the next start of the server finds what is left.
pub(super) async fn run(store: Arc<Store>, tasks: Vec<Task>) {
    let work = Work::new(&store);
    work.follow(tasks);
    // The answer to the write says that the file has failed.
    let _ = finish(&work).await;
}

/// Does the tasks of a controller.
///
/// # Errors
/// If the file cannot be written.
pub(super) async fn finish(work: &Work<'_>) -> Result<(), Unkept> {
    while let Some(task) = work.next() {
        match task {
            Task::Delete { collection, key } => {
                delete::as_controller(work, &collection, &key, None, &delete::Options::default())
            }
            Task::Namespace(name) => delete::empty_namespace(work, &name).await?,
            Task::EmptyNamespace(name) => delete::finish_namespace(work, &name),
            Task::Definition(name) => custom::empty_definition(work, &name).await?,
            Task::EmptyDefinition(name) => custom::finish_definition(work, &name),
            Task::Names(group) => custom::reconsider_names(work, &group).await?,
            Task::Registrations(group) => api_services::follow_definitions(work, &group).await?,
            Task::Availability(name) => api_services::check(work, &name),
            Task::Availabilities => api_services::check_all(work).await?,
            Task::KubernetesService => kubernetes_service::reconcile(work, false),
        }
        work.pause().await?;
    }
    Ok(())
}
