//! Conversion of custom objects between the storage version and the version of a request.

use crate::embedded::custom::definition::Version;
use crate::embedded::custom::resource::Custom;
use crate::embedded::http::call::Call;
use crate::go_text::numbers;
use crate::kind::split_api_version;
use crate::object::Object;
use crate::status::Status;
use std::sync::Arc;

/// A stored object for a response: converted to the version of the request if a webhook converts it. Other conversions need no call; see
/// [`ServedResource::shown`](crate::embedded::api::catalog::ServedResource::shown).
///
/// # Errors
/// 500 if the webhook fails.
pub(in crate::embedded) async fn shown_to(call: &Call, object: Arc<Object>) -> Result<Arc<Object>, Status> {
    let Some(custom) = &call.resource.custom else { return Ok(object) };
    let (_, from) = split_api_version(object.api_version());
    if custom.version.name == *from || custom.definition.webhook().is_none() {
        return Ok(object);
    }
    let Some(version) = custom.definition.version(from) else { return Ok(object) };
    let read = version.schema()?.read(&object);
    let converted = convert(call, custom, read, version, &custom.version).await?;
    Ok(Arc::new(custom.pruned(converted, &custom.version)))
}

/// An object of the request's version in the storage version, with the numbers that kube-apiserver reads again from its storage.
///
/// # Errors
/// 500 if the webhook fails.
pub(in crate::embedded) async fn to_storage(call: &Call, custom: &Custom, object: Object) -> Result<Object, Status> {
    let definition = &custom.definition;
    let stored = definition.version(&definition.storage).filter(|stored| stored.name != custom.version.name);
    let mut object = match stored {
        None => object,
        Some(stored) if definition.webhook().is_none() => custom.in_version(object, stored),
        Some(stored) => {
            let converted = convert(call, custom, object, &custom.version, stored).await?;
            custom.pruned(converted, stored)
        }
    };
    object.fields_mut().values_mut().for_each(numbers::canonicalize);
    Ok(object)
}

async fn convert(call: &Call, custom: &Custom, object: Object, from: &Version, to: &Version) -> Result<Object, Status> {
    let Some(webhooks) = call.server.webhooks.get() else {
        return Err(Status::not_implemented("conversion webhooks are not called by this API server"));
    };
    webhooks.convert(&custom.definition.object, &object, &from.kind, &to.kind).await.map_err(Status::plain)
}
