//! Quantities in a printer's format, independent of the client's.

use crate::object::quantity::canonical;
use serde_json::Value;

/// The canonical form of a quantity, or `0` if it is missing; other values stay as they are.
pub(super) fn shown(value: Option<&Value>) -> String {
    match value {
        None => "0".to_owned(),
        Some(Value::String(text)) => canonical(text).unwrap_or_else(|_| text.clone()),
        Some(other) => canonical(&other.to_string()).unwrap_or_else(|_| other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_canonical() {
        for (written, expected) in [
            ("1", "1"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1500m", "1500m"),
            ("1000", "1k"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("512", "512"),
            ("1023Ki", "1023Ki"),
            ("0.5Ki", "512"),
            ("1e3", "1e3"),
            ("12e6", "12e6"),
            ("-1", "-1"),
            ("0", "0"),
            ("10000000000n", "10"),
            ("word", "word"),
            ("1Qi", "1Qi"),
        ] {
            assert_eq!(shown(Some(&Value::from(written))), expected, "{written}");
        }
        assert_eq!(shown(None), "0");
        assert_eq!(shown(Some(&Value::from(3))), "3");
        assert_eq!(shown(Some(&Value::from("9".repeat(60)))), "9".repeat(60));
    }
}
