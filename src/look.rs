//! What `/debug/admission` shows: made only when somebody asks, and bounded.

use serde_json::{Value, json};
use std::time::Duration;

/// The items of a list that are shown.
const MAX_ITEMS: usize = 500;

/// A list as it is shown.
pub(crate) fn listed(items: impl IntoIterator<Item = Value>) -> Value {
    let mut items = items.into_iter();
    let shown: Vec<Value> = items.by_ref().take(MAX_ITEMS).collect();
    json!({"items": shown, "omitted": items.count()})
}

/// A duration in seconds, in microseconds at the finest.
pub(crate) fn seconds(time: Duration) -> Value {
    json!(time.as_micros() as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_bounded() {
        let all = listed((0..MAX_ITEMS + 7).map(Value::from));
        assert_eq!((all["items"].as_array().unwrap().len(), &all["omitted"]), (MAX_ITEMS, &json!(7)));
        assert_eq!(listed([json!(1)]), json!({"items": [1], "omitted": 0}));
    }
}
