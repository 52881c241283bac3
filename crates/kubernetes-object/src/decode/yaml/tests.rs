use super::*;
use proptest::prelude::*;
use serde_json::json;

fn read(text: &str) -> Value {
    yaml(text.as_bytes()).unwrap().value
}

#[test]
fn scalars_mean_what_they_mean_to_goyaml() {
    for (text, expected) in [
        ("yes", json!(true)),
        ("Off", json!(false)),
        ("y", json!(true)),
        ("~", Value::Null),
        ("\"yes\"", json!("yes")),
        ("'1'", json!("1")),
        ("0x1F", json!(31)),
        ("017", json!(15)),
        ("0o17", json!(15)),
        ("08", json!(8)),
        ("0b11", json!(3)),
        ("-0b11", json!(-3)),
        ("1_000", json!(1000)),
        ("1.0", json!(1)),
        ("1e3", json!(1000)),
        ("1.5", json!(1.5)),
        (".5", json!(0.5)),
        ("+1", json!(1)),
        ("-", json!([null])),
        ("1.2.3", json!("1.2.3")),
        ("12:30:45", json!("12:30:45")),
        ("2001-01-01", json!("2001-01-01")),
        ("18446744073709551615", json!(u64::MAX)),
        ("!!str 1", json!("1")),
        ("!!int \"1\"", json!(1)),
        ("!!float 1", json!(1)),
        ("!!binary aGk=", json!("hi")),
        ("!local 1", json!("1")),
        ("|\n a\n b\n", json!("a\nb\n")),
        ("", Value::Null),
        ("# nothing", Value::Null),
        ("---\n---\na: b", Value::Null),
    ] {
        assert_eq!(read(text), expected, "{text:?}");
    }
}

#[test]
fn keys_become_strings() {
    assert_eq!(
        read("{1: a, yes: b, 1.5: c, x: d, '2': e}"),
        json!({"1": "a", "true": "b", "1.5": "c", "x": "d", "2": "e"})
    );
}

#[test]
fn a_byte_order_mark_says_what_a_character_is() {
    let units: Vec<u16> = "a: \u{1f600}".encode_utf16().collect();
    let little = [vec![0xff, 0xfe], units.iter().flat_map(|unit| unit.to_le_bytes()).collect()].concat();
    let big = [vec![0xfe, 0xff], units.iter().flat_map(|unit| unit.to_be_bytes()).collect()].concat();
    for bytes in [&little, &big] {
        assert_eq!(yaml(bytes).unwrap().value, json!({"a": "\u{1f600}"}));
        // The texts end after half a character, and after half a surrogate pair.
        assert!(yaml(&bytes[..bytes.len() - 1]).is_err());
        assert!(yaml(&bytes[..bytes.len() - 2]).is_err());
    }
}

#[test]
fn only_the_first_document_is_read() {
    assert_eq!(read("a: b\n---\nc: d"), json!({"a": "b"}));
    assert_eq!(read("a: b\n---\n["), json!({"a": "b"}));
}

#[test]
fn aliases_and_merges_are_carried_out() {
    let text = "base: &b {x: 1, z: 2}\ncopy: *b\nmerged: {<<: *b, z: 3}\nboth: {<<: [{a: 1}, {a: 2, c: 3}]}";
    assert_eq!(
        read(text),
        json!({
            "base": {"x": 1, "z": 2}, "copy": {"x": 1, "z": 2}, "merged": {"x": 1, "z": 3}, "both": {"a": 1, "c": 3},
        })
    );
}

#[test]
fn alias_bombs_are_refused() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    assert_eq!(yaml(text.as_bytes()).unwrap_err().to_string(), "yaml: document contains excessive aliasing");
}

#[test]
fn duplicate_keys_are_named_with_their_line() {
    let decoded = yaml(b"data:\n  a: b\n  c: d\n  a: e\n").unwrap();
    assert_eq!(decoded.value, json!({"data": {"a": "e", "c": "d"}}));
    assert_eq!(decoded.duplicates, ["line 4: key \"a\" already set in map"]);
}

#[test]
fn a_text_that_is_not_yaml_is_refused() {
    for text in ["a: [", "a: b: c", "*x", "- a\nb", ".nan", "{[1]: 2}", "!!int x", "a: &a [*a]", "k8s\0: {a: 0}"] {
        assert!(yaml(text.as_bytes()).is_err(), "{text:?}");
    }
    assert_eq!(yaml(b"a: *x").unwrap_err().to_string(), "yaml: unknown anchor 'x' referenced");
    assert!(yaml("[".repeat(200_000).as_bytes()).is_err());
    assert!(yaml(b"\xff\xff").is_err());
}

#[test]
fn aliases_do_not_nest_deeper_than_documents_may() {
    let mut text = String::from("a0: &a0 [x]\n");
    for level in 1..(2 * MAX_DEPTH) {
        text.push_str(&format!("a{level}: &a{level} [*a{}]\n", level - 1));
    }
    assert!(yaml(text.as_bytes()).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..48)) {
        let _ = yaml(&bytes);
    }

    #[test]
    fn any_yaml_like_text_is_read_or_refused(text in "([a-c:&*!<>|{}\\[\\],'\"#.0-9 \n-]|: |- |\n  |&a |\\*a){0,24}") {
        let _ = yaml(text.as_bytes());
    }

    #[test]
    fn json_is_yaml(text in r#"\{"a":(true|null|1|"x y"|\[\]|\{"b":\[1,2\]\})\}"#) {
        prop_assert_eq!(read(&text), super::super::json(text.as_bytes()).unwrap().value);
    }
}

#[test]
fn broken_text_is_refused_in_goyamls_words() {
    for (text, expected) in [
        ("[", "line 1: did not find expected node content"),
        ("{a:", "line 1: did not find expected node content"),
        ("a:\n- [\n", "line 2: did not find expected node content"),
        ("a: ]", "did not find expected node content"),
        ("a: [b", "line 1: did not find expected ',' or ']'"),
        ("a: {b: 1", "line 1: did not find expected ',' or '}'"),
        ("[a}", "did not find expected ',' or ']'"),
        ("{a: 1]", "did not find expected ',' or '}'"),
        ("a: b: c", "mapping values are not allowed in this context"),
        ("x: 1\na: b: c", "line 2: mapping values are not allowed in this context"),
        ("a: 'x", "found unexpected end of stream"),
        ("x: 1\na: \"x\n  y", "line 3: found unexpected end of stream"),
        ("a: 1\nb\n", "line 3: could not find expected ':'"),
        ("a:\n\tb: 1", "line 2: found character that cannot start any token"),
        ("a: @x", "found character that cannot start any token"),
        ("a: %x", "found character that cannot start any token"),
        ("a:\n  - b\n - c", "line 2: did not find expected key"),
        ("a: 1\n- b", "line 1: did not find expected key"),
        ("- a\nb: 1", "line 1: did not find expected '-' indicator"),
        ("a: *", "did not find expected alphabetic or numeric character"),
        ("x: 1\nkey without colon\ny: 2", "line 3: could not find expected ':'"),
        ("a: \"\\q\"", "found unknown escape character"),
    ] {
        assert_eq!(yaml(text.as_bytes()).unwrap_err().to_string(), format!("yaml: {expected}"), "{text:?}");
    }
}

#[test]
fn a_text_that_go_takes_for_a_time_is_no_text() {
    for text in
        ["2020-1-2", "2026-11-29T11:00:00Z", "2026-11-29t1:0:0.5+01:00", "2026-11-29 11:00:00.123456", "2024-02-29"]
    {
        assert!(!is_yaml_text(text), "{text}");
    }
    for text in [
        "2023-02-29",
        "2020-13-01",
        "2026-11-29T11:00:00",
        "2026-11-29 24:00:00",
        "20-1-2",
        "2020-1-2-3",
        "2020-1",
        "2020-01-02x",
    ] {
        assert!(is_yaml_text(text), "{text}");
    }
}
