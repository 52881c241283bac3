use super::*;
use crate::object::decode as json;
use flate2::read::GzDecoder;
use std::io::Read;

/// Random documents of every kind with what Go makes of them: `tools/protobuf-table -cases`.
fn recorded() -> String {
    let mut text = String::new();
    GzDecoder::new(&include_bytes!("cases.gz")[..]).read_to_string(&mut text).unwrap();
    text
}

fn kind(text: &str) -> GroupVersionKind {
    let parts: Vec<_> = text.split('/').collect();
    GroupVersionKind::new(parts[0], parts[1], parts[2])
}

/// The first place where two values differ.
fn difference(path: &str, found: &Value, expected: &Value) -> Option<String> {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            found.keys().chain(expected.keys()).find_map(|key| match (found.get(key), expected.get(key)) {
                (Some(found), Some(expected)) => difference(&format!("{path}.{key}"), found, expected),
                (found, expected) => Some(format!("{path}.{key}: {found:?} is not {expected:?}")),
            })
        }
        (Value::Array(found), Value::Array(expected)) if found.len() == expected.len() => {
            let mut pairs = found.iter().zip(expected).enumerate();
            pairs.find_map(|(index, (found, expected))| difference(&format!("{path}[{index}]"), found, expected))
        }
        (Value::Number(found), Value::Number(expected)) if found.as_f64() == expected.as_f64() => None,
        _ if found == expected => None,
        _ => Some(format!("{path}: {found} is not {expected}")),
    }
}

/// How a line of cases is decoded otherwise than by Go.
fn disagreement(line: &str) -> Option<String> {
    let parts: Vec<_> = line.split('\t').collect();
    let (kind, document) = (kind(parts[0]), parts[1].as_bytes());
    let expected = json::json(parts[2].as_bytes()).unwrap().value;
    let found = decode_json(&kind, json::json(document).unwrap(), document).unwrap();
    match (found, expected.get("error")) {
        (Err(why), Some(error)) => (error != &why).then(|| format!("{why} is not {error}")),
        (Err(why), None) => Some(why),
        (Ok(_), Some(error)) => Some(format!("no error is not {error}")),
        (Ok(Typed { mut value, unknown }), None) => {
            encode(&kind, &mut value);
            let mut again = decode(&kind, value.clone()).unwrap().unwrap();
            encode(&kind, &mut again.value);
            let strict = expected.get("strict").cloned().unwrap_or(Value::Array(Vec::new()));
            difference("", &value, &expected["value"])
                .or_else(|| (strict != Value::from(unknown.clone())).then(|| format!("{unknown:?} is not {strict}")))
                .or_else(|| (!again.unknown.is_empty()).then(|| format!("{:?} in what was decoded", again.unknown)))
        }
    }
}

fn disagreements(text: &str) {
    let wrong: Vec<String> = text
        .lines()
        .filter_map(|line| Some(format!("{}\n  in {}", disagreement(line)?, &line[..line.len().min(300)])))
        .collect();
    let (count, total) = (wrong.len(), text.lines().count());
    assert!(wrong.is_empty(), "{count} of {total}:\n{}", wrong[..count.min(40)].join("\n"));
}

#[test]
fn documents_of_every_kind_are_what_go_makes_of_them() {
    disagreements(&recorded());
}

/// More of them than the repository holds.
#[test]
#[ignore = "reads the file that TYPED_CASES names"]
fn documents_of_a_file_are_what_go_makes_of_them() {
    disagreements(&std::fs::read_to_string(std::env::var("TYPED_CASES").unwrap()).unwrap());
}
