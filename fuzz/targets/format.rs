//! Formats of the expression language with values of every kind.

#![no_main]

use kube_admission_proxy::cel::Value;
use kube_admission_proxy::cel::library::strings;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, f64, i64, &str)| {
    let (format, double, int, text) = input;
    let each = || [Value::Double(double), Value::Int(int), Value::Uint(int as u64), Value::text(text), Value::Null];
    let entries = each().into_iter().zip(each()).skip(1);
    let values = each().into_iter().chain([Value::list(each().to_vec()), Value::map(entries), Value::Duration(int)]);
    let arguments = [Value::text(format), Value::list(values.collect())];
    for function in strings::FUNCTIONS.iter().filter(|function| function.name == "format") {
        let _ = (function.call)(&arguments);
    }
});
