//! Events of the core group and of events.k8s.io have equal fields with different names.

use super::rename;
use crate::defaults::fields::Fields;

/// Field names in the core group and in events.k8s.io (`Convert_v1_Event_To_core_Event`).
const NAMES: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

pub(super) fn convert(event: &mut Fields, from: &str, to: &str) {
    for (core, other) in NAMES {
        match (from, to) {
            ("", "events.k8s.io") => rename(event, core, other),
            ("events.k8s.io", "") => rename(event, other, core),
            _ => {}
        }
    }
}
