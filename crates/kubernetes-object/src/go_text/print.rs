//! Values in the form of Go's `%v`.

use serde_json::Value;

/// Prints a decoded value as Go's `%v` does.
pub fn go_print(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.as_i64().is_none() => go_float(number.as_f64().unwrap_or_default()),
        Value::Array(items) => format!("[{}]", items.iter().map(go_print).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_unstable_by_key(|(key, _)| key.as_str());
            let fields: Vec<_> = fields.into_iter().map(|(key, value)| format!("{key}:{}", go_print(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
        other => other.to_string(),
    }
}

/// Prints a double as `strconv.FormatFloat(float, 'g', -1, 64)` does: with an exponent below -4 and from 6 on.
pub fn go_float(float: f64) -> String {
    let scientific = format!("{float:e}");
    match scientific.split_once('e').and_then(|(digits, exponent)| Some((digits, exponent.parse::<i32>().ok()?))) {
        Some((digits, exponent @ (..-4 | 6..))) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => float.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_printed_as_go_prints_them() {
        let patch = json!({"spec": {"b": [1, "x y", null], "a": true}, "data": {}});
        assert_eq!(go_print(&patch), "map[data:map[] spec:map[a:true b:[1 x y <nil>]]]");
        let numbers = json!([1.5, 80.0, 2e10, 1e30, 9_223_372_036_854_775_808_u64, 0.00001, -1]);
        assert_eq!(go_print(&numbers), "[1.5 80 2e+10 1e+30 9.223372036854776e+18 1e-05 -1]");
    }
}
