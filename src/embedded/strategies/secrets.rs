//! Secrets (`pkg/registry/core/secret`).

use super::context::Context;
use super::fields::{default, strings};
use super::strategy::Strategy;
use crate::embedded::api::catalog::ServedResource;
use crate::object::Object;
use crate::status::Status;
use crate::x509::check_key_pair;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// `core.SecretTypeOpaque`
const OPAQUE: &str = "Opaque";

pub(super) struct Secrets;

impl Strategy for Secrets {
    fn prepare_for_create(&self, _: &Context<'_>, object: &mut Object) -> Result<(), Status> {
        prepare(object);
        Ok(())
    }

    fn prepare_for_update(&self, _: &Context<'_>, object: &mut Object, _: &Object) -> Result<bool, Status> {
        prepare(object);
        Ok(false)
    }

    /// `warningsForSecret`: certificate and key of a pair for TLS do not belong together.
    fn warning(&self, object: &Object) -> Option<String> {
        if object.str(&["type"]) != "kubernetes.io/tls" {
            return None;
        }
        let data = |name: &str| STANDARD.decode(object.str(&["data", name])).unwrap_or_default();
        check_key_pair(&data("tls.crt"), &data("tls.key")).err().map(|error| error.to_string())
    }

    fn selectable_fields(&self, _: &ServedResource) -> &'static [&'static str] {
        &["type"]
    }

    fn unset(&self, _: &str) -> &'static str {
        OPAQUE
    }
}

/// `Convert_v1_Secret_To_core_Secret`: moves `stringData` to `data`.
fn prepare(object: &mut Object) {
    default(object, &["type"], json!(OPAQUE));
    if let Some(Value::Object(plain)) = object.fields_mut().remove("stringData") {
        let mut data = strings(object, &["data"]);
        for (name, value) in plain {
            data.insert(name, Value::from(STANDARD.encode(value.as_str().unwrap_or_default())));
        }
        object.fields_mut().insert("data".into(), Value::Object(data));
    }
}
