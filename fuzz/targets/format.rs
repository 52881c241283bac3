//! Formats of the expression language with values of every kind. The input has four lines: the format, a double, an int, a text.

#![no_main]

use kubernetes_cel::Value;
use kubernetes_cel::library::strings;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &str| {
    let mut lines = input.splitn(4, '\n');
    let mut line = || lines.next().unwrap_or_default();
    let (format, double, int, text) =
        (line(), line().parse().unwrap_or_default(), line().parse().unwrap_or_default(), line());
    let each = || [Value::Double(double), Value::Int(int), Value::Uint(int as u64), Value::text(text), Value::Null];
    let entries = each().into_iter().zip(each()).skip(1);
    let values = each().into_iter().chain([Value::list(each().to_vec()), Value::map(entries), Value::Duration(int)]);
    let arguments = [Value::text(format), Value::list(values.collect())];
    for function in strings::FUNCTIONS.iter().filter(|function| function.name == "format") {
        let _ = (function.call)(&arguments);
    }
});
