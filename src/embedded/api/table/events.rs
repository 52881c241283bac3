//! Events of both groups, whose fields have two sets of names.

use super::view::View;
use serde_json::{Value, json};

pub(super) fn event(object: View<'_>) -> Vec<Value> {
    let first_of = |names: [&'static str; 2]| if object.has(names[0]) { names[0] } else { names[1] };
    let first_time = first_of(["/firstTimestamp", "/deprecatedFirstTimestamp"]);
    let first = if object.has(first_time) { object.since(first_time) } else { object.since("/eventTime") };
    let last_time = first_of(["/lastTimestamp", "/deprecatedLastTimestamp"]);
    let mut last = if object.has(last_time) { object.since(last_time) } else { first.clone() };
    let mut count = object.number(first_of(["/count", "/deprecatedCount"]));
    if object.has("/series") {
        last = object.since("/series/lastObservedTime");
        count = object.number("/series/count");
    } else if count == 0 {
        // A single event of the newer kind has no count.
        count = 1;
    }
    let regarding = object.part(first_of(["/involvedObject", "/regarding"]));
    let kind = regarding.text("/kind").to_lowercase();
    let target = match regarding.text("/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    vec![
        json!(last),
        json!(object.text("/type")),
        json!(object.text("/reason")),
        json!(target),
        json!(regarding.text("/fieldPath")),
        json!(source(object, first_of(["/source", "/deprecatedSource"]))),
        json!(object.text(first_of(["/message", "/note"])).trim()),
        json!(first),
        json!(count),
        object.name(),
    ]
}

/// `formatEventSource`.
fn source(event: View<'_>, pointer: &str) -> String {
    let source = event.part(pointer);
    let controller = event.text_or("/reportingComponent", event.text("/reportingController"));
    let component = source.text_or("/component", controller);
    match source.text_or("/host", event.text("/reportingInstance")) {
        "" => component.to_owned(),
        host => format!("{component}, {host}"),
    }
}
