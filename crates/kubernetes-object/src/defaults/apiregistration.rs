//! Defaults of API services.

use super::fields::{Fields, if_nil, pointer};

pub(super) fn apply(kind: &str, object: &mut Fields) {
    if kind == "APIService"
        && let Some(service) = pointer(object, "spec").and_then(|spec| pointer(spec, "service"))
    {
        if_nil(service, "port", 443);
    }
}
