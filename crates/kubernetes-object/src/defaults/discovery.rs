//! Defaults of the discovery.k8s.io group.

use super::fields::{Fields, each, if_nil};

pub(super) fn apply(kind: &str, object: &mut Fields) {
    if kind == "EndpointSlice" {
        for port in each(object, "ports") {
            if_nil(port, "name", "");
            if_nil(port, "protocol", "TCP");
        }
    }
}
