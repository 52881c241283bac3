//! Tables of scales: the printer of built-in resources (`printScale`), and the columns of custom ones (`getScaleColumnsForVersion`).

use super::view::View;
use super::{IncludeObject, RECORDED, metadata, row_of};
use crate::embedded::api::catalog::ServedResource;
use serde_json::{Value, json};

/// The `meta.k8s.io/v1` Table of a scale.
pub(in crate::embedded) fn scale_table(
    resource: &ServedResource,
    scale: &Value,
    include_object: IncludeObject,
    now: jiff::Timestamp,
) -> Value {
    let view = View::new(scale, now);
    let description = |column: &str| RECORDED.descriptions.get(column).map(String::as_str).unwrap_or_default();
    let column = |name: &str, kind: &str, format: &str, description: &str| json!({"name": name, "type": kind, "format": format, "description": description, "priority": 0});
    let (name, age) = (description("Name"), description("Age"));
    let (columns, cells) = match resource.custom {
        None => (
            json!([
                column("Name", "string", "", name),
                column("Desired", "integer", "", "replicas is the desired number of instances for the scaled object."),
                column(
                    "Available",
                    "integer",
                    "",
                    "replicas is the actual number of observed instances of the scaled object."
                ),
                column("Age", "string", "", age),
            ]),
            vec![view.name(), json!(view.number("/spec/replicas")), json!(view.number("/status/replicas")), view.age()],
        ),
        Some(_) => (
            json!([
                column("Name", "string", "name", name),
                column("Desired", "integer", "", "Number of desired replicas"),
                column("Available", "integer", "", "Number of actual replicas"),
                column("Age", "date", "", age),
            ]),
            vec![
                view.name(),
                json!(view.optional_number("/spec/replicas")),
                json!(view.optional_number("/status/replicas")),
                view.age(),
            ],
        ),
    };
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata(std::slice::from_ref(scale), None),
        "columnDefinitions": columns,
        "rows": [row_of(cells, scale, include_object)],
    })
}
