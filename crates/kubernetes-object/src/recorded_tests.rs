//! The three recorded tables of the built-in types agree: OpenAPI (`schema`), Go types (`typed`) and protobuf messages (`protobuf`). Each has
//! facts of its own, and all have the kinds, the fields and the types of the fields.

use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::io::Read;

/// The kinds of a table with their types, and the lines of each type.
struct Table {
    kinds: BTreeMap<String, String>,
    types: BTreeMap<String, Vec<Vec<String>>>,
}

/// A field in the words of the table of messages.
#[derive(Debug, PartialEq)]
struct Field {
    shape: String,
    /// Pointer, `omitempty`, `omitzero`.
    flags: [bool; 3],
    /// The Go structs that embed the field.
    embedded: String,
}

fn parse(text: &str) -> Table {
    let mut table = Table { kinds: BTreeMap::new(), types: BTreeMap::new() };
    let mut name = String::new();
    for line in crate::release::lines(text) {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        if words[0] == "=" {
            name = words[1].clone();
            table.types.insert(name.clone(), Vec::new());
            let kinds = words[2..].iter().filter(|word| word.matches('/').count() == 2);
            table.kinds.extend(kinds.map(|kind| (kind.clone(), name.clone())));
        } else {
            table.types.get_mut(&name).unwrap().push(words);
        }
    }
    table
}

fn openapi() -> Table {
    parse(include_str!("schema/types.txt"))
}

fn go() -> Table {
    parse(include_str!("typed/types.txt"))
}

fn messages() -> Table {
    let mut text = String::new();
    GzDecoder::new(&include_bytes!("protobuf/messages.txt.gz")[..]).read_to_string(&mut text).unwrap();
    parse(&text)
}

/// The shape of a Go type, without names and pointers.
fn shape_of_go(text: &str) -> String {
    let text = text.trim_start_matches('*');
    let text = match text.split_once('=') {
        Some((name, text)) if !name.contains(['[', '{', '*']) => text,
        _ => text,
    };
    match (text.strip_prefix("[]"), text.split_once('}').filter(|_| text.starts_with('{'))) {
        (Some("uint8"), _) => "bytes".to_owned(),
        (Some(items), _) => format!("[]{}", shape_of_go(items)),
        (_, Some((_, values))) => format!("{{}}{}", shape_of_go(values)),
        _ if ["raw-extension", "fields-v1", "json"].contains(&text) => "raw".to_owned(),
        _ => text.to_owned(),
    }
}

fn fields_of_go(lines: &[Vec<String>]) -> BTreeMap<String, Field> {
    let field = |words: &Vec<String>| {
        let flags = [words[1].starts_with('*'), words[2].contains('o'), words[2].contains('z')];
        let embedded = words.get(3).cloned().unwrap_or_default();
        (words[0].clone(), Field { shape: shape_of_go(&words[1]), flags, embedded })
    };
    lines.iter().map(field).collect()
}

/// The fields of a message in JSON: those of an inline message stand among the others.
fn fields_of_message(table: &Table, name: &str) -> BTreeMap<String, Field> {
    let mut fields = BTreeMap::new();
    for words in &table.types[name] {
        let (held, flags) = (&words[2], &words[3]);
        if flags.contains('i') {
            for (name, mut field) in fields_of_message(table, held) {
                field.embedded = format!("{}.{}", words[4], field.embedded).trim_end_matches('.').to_owned();
                fields.insert(name, field);
            }
            continue;
        }
        let shape = held.replace("<>", "[]").replace("json", "raw");
        let flags = ['p', 'o', 'z'].map(|flag| flags.contains(flag));
        fields.insert(words[1].clone(), Field { shape, flags, embedded: String::new() });
    }
    fields
}

#[test]
fn messages_have_the_fields_of_the_go_types() {
    let (go, messages) = (go(), messages());
    let mut compared = 0;
    for (name, lines) in go.types.iter().filter(|(name, _)| messages.types.contains_key(*name)) {
        let mut of_go = fields_of_go(lines);
        of_go.retain(|_, field| field.embedded != "TypeMeta");
        compared += of_go.len();
        assert_eq!(fields_of_message(&messages, name), of_go, "{name}");
    }
    assert!(compared > 3500, "{compared}");
    for (kind, name) in &messages.kinds {
        // Kinds of answers, which no body contains, are messages alone.
        let is_answer = ["apidiscovery.k8s.io/", "meta.k8s.io/"].iter().any(|group| kind.starts_with(group));
        assert!(is_answer || go.kinds.get(kind) == Some(name), "{kind}");
    }
}

#[test]
fn schemas_have_the_fields_of_the_go_types() {
    let (go, openapi) = (go(), openapi());
    let mut compared = 0;
    for (name, lines) in openapi.types.iter().filter(|(name, _)| go.types.contains_key(*name)) {
        let of_go = fields_of_go(&go.types[name]);
        let names: Vec<&String> = lines.iter().map(|words| &words[0]).collect();
        assert_eq!(names, of_go.keys().collect::<Vec<_>>(), "{name}");
        for words in lines {
            let prefix = words[1].len() - words[1].trim_start_matches(['[', ']', '{', '}']).len();
            let (containers, held) = words[1].split_at(prefix);
            let held = match held {
                "boolean" => "bool",
                "double" => "float64",
                "any" => "raw",
                other => other,
            };
            // OpenAPI has no type for the unions of JSON schemas.
            let found = of_go[&words[0]].shape.replace("schema-or-bool", "raw");
            let found = found.replace("schema-or-array", "raw").replace("schema-or-strings", "raw");
            assert_eq!(format!("{containers}{held}"), found, "{name}.{}", words[0]);
            compared += 1;
        }
    }
    assert!(compared > 2500, "{compared}");
    for (kind, name) in &openapi.kinds {
        // These kinds are in every group.
        let everywhere = kind.ends_with("/DeleteOptions") || kind.ends_with("/WatchEvent");
        assert!(everywhere || go.kinds.get(kind) == Some(name), "{kind}");
    }
}
