use super::*;
use proptest::prelude::*;
use serde_json::json;

#[test]
fn label_selectors_match_as_kubernetes_matches() {
    for (selector, labels, expected) in [
        ("", json!({}), true),
        ("a=b", json!({"a": "b"}), true),
        ("a==b", json!({"a": "c"}), false),
        ("a!=b", json!({}), true),
        ("a!=b", json!({"a": "b"}), false),
        ("a", json!({"a": ""}), true),
        ("!a", json!({"a": ""}), false),
        ("! a", json!({}), true),
        ("a in (b, c)", json!({"a": "c"}), true),
        ("a in (b, c)", json!({}), false),
        ("a notin (b)", json!({}), true),
        ("a notin (b,)", json!({"a": ""}), false),
        ("a in ()", json!({"a": ""}), true),
        ("a in (,b)", json!({"a": ""}), true),
        ("a=", json!({"a": ""}), true),
        ("a=,b", json!({"a": "", "b": "1"}), true),
        ("in in (in,notin)", json!({"in": "notin"}), true),
        ("a>1,a<3", json!({"a": "2"}), true),
        ("a>1", json!({"a": "x"}), false),
        ("a>1", json!({}), false),
        ("example.com/x=y", json!({"example.com/x": "y"}), true),
    ] {
        let parsed = LabelSelector::parse(selector).unwrap();
        assert_eq!(parsed.matches(labels.as_object()), expected, "{selector} {labels}");
        let map: std::collections::BTreeMap<_, _> = serde_json::from_value(labels).unwrap();
        assert_eq!(parsed.matches_map(&map), expected, "{selector}");
    }
}

#[test]
fn malformed_label_selectors_are_refused_in_kubernetes_words() {
    for (selector, expected) in [
        ("a in", "unable to parse requirement: found '' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (b,", "unable to parse requirement: found '', expected: ',', or identifier"),
        ("a in (=", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a==(", "unable to parse requirement: found '(', expected: identifier"),
        (
            "a>b",
            "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (
            "-a",
            "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of alphanumeric characters, \
             '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
             '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ),
    ] {
        assert_eq!(LabelSelector::parse(selector).unwrap_err().to_string(), expected, "{selector}");
    }
}

#[test]
fn a_label_selector_object_selects() {
    let from = |value| LabelSelector::from_json(Some(&value));
    assert!(!LabelSelector::from_json(None).unwrap().matches(None));
    assert!(from(json!({})).unwrap().matches(None));
    let selector =
        from(json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "DoesNotExist"}]}));
    let selector = selector.unwrap();
    assert!(selector.matches(json!({"a": "b"}).as_object()));
    assert!(!selector.matches(json!({"a": "b", "c": ""}).as_object()));
    for (selector, expected) in [
        (json!([{"key": "a", "operator": "Is"}]), "\"Is\" is not a valid label selector operator"),
        (
            json!([{"key": "a", "operator": "In"}]),
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            json!([{"key": "a", "operator": "Exists", "values": ["b"]}]),
            "values: Invalid value: [\"b\"]: values set must be empty for exists and does not exist",
        ),
    ] {
        assert_eq!(from(json!({"matchExpressions": selector})).unwrap_err().to_string(), expected);
    }
    assert!(from(json!({"matchLabels": 1})).is_err());
}

#[test]
fn field_selectors_are_parsed_with_their_escapes() {
    let parsed = FieldSelector::parse(r"metadata.name=a\,b\=c\\,status.phase!=Running,,x==").unwrap();
    let requirements: Vec<_> =
        parsed.requirements().iter().map(|r| (r.field.as_str(), r.equals, r.value.as_str())).collect();
    assert_eq!(requirements, [("metadata.name", true, r"a,b=c\"), ("status.phase", false, "Running"), ("x", true, "")]);
    assert_eq!(parsed.exact_match("metadata.name"), Some(r"a,b=c\"));
    assert!(parsed.matches(|field| if field == "metadata.name" { r"a,b=c\".into() } else { String::new() }));
    for (selector, expected) in [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        (r"a=\b", r"invalid field selector: invalid escape sequence: \b"),
        ("a=\\", "invalid field selector: invalid escape sequence: \\"),
    ] {
        assert_eq!(FieldSelector::parse(selector).unwrap_err().to_string(), expected, "{selector}");
    }
}

#[test]
fn a_field_selector_names_one_object_as_in_go() {
    for (selector, expected) in [
        ("", Some(None)),
        ("metadata.name=a", Some(Some("a"))),
        ("metadata.name==a", Some(Some("a"))),
        ("metadata.name!=a", Some(None)),
        ("metadata.name=b,metadata.name=a", Some(Some("a"))),
        ("x=1,,metadata.name=a", Some(Some("a"))),
        (r"metadata.name=a\,b\=c\\", Some(Some(r"a,b=c\"))),
        (r"metadata.name=a\b", None),
        ("metadata.name=a=b", None),
        (r"metadata.name=a\", None),
        ("metadata.name", None),
        ("metadata.name=é,x", None),
        ("metadata.name=", Some(Some(""))),
    ] {
        let parsed = FieldSelector::parse(selector).ok();
        assert_eq!(parsed.as_ref().map(|parsed| parsed.exact_match("metadata.name")), expected, "{selector}");
    }
}

#[test]
fn a_label_selector_is_accepted_where_labels_parse_accepts_it() {
    for selector in [
        "",
        " ",
        "a",
        "!a",
        "a=b",
        "a = b , c",
        "a==",
        "a=,b",
        "a!=b",
        "a in (b)",
        "a in ()",
        "a in (,)",
        "a notin (b,,c)",
        "x.y/a in (in,notin)",
        "a>1",
        "in",
        "a\0",
        "\0x",
    ] {
        assert!(LabelSelector::parse(selector).is_ok(), "{selector}");
    }
    for selector in [
        "=",
        "a,",
        ",a",
        "a b",
        "a=b c",
        "a in b",
        "a in (b",
        "a in (b c)",
        "-a",
        "a=-",
        "a/b/c=d",
        "a>x",
        "a<-1",
        "a===b",
        "(a)",
        "a in (=)",
        "é",
        "!",
        "X/a",
        "a\0b",
        "!a=b",
    ] {
        assert!(LabelSelector::parse(selector).is_err(), "{selector}");
    }
}

#[test]
fn a_nul_ends_a_text_or_a_token_as_in_go() {
    for (selector, expected) in
        [("a=b\0,c", "a In b;c Exists "), ("a=b \0,c", "a In b"), ("a\0=\0b", "a In b"), ("\0(", "")]
    {
        let parsed = LabelSelector::parse(selector).unwrap();
        let found: Vec<_> = parsed
            .requirements()
            .iter()
            .map(|r| format!("{} {:?} {}", r.key, r.operator, r.values.join(",")))
            .collect();
        assert_eq!(found.join(";"), expected, "{selector:?}");
    }
}

#[test]
fn an_escaped_value_selects_just_itself() {
    for name in ["plain", "a,metadata.name!=b", r"a\,b==c\"] {
        let selector = format!("metadata.name={}", escape_field_value(name));
        let parsed = FieldSelector::parse(&selector).unwrap();
        assert_eq!(parsed.exact_match("metadata.name"), Some(name), "{selector}");
        assert_eq!(parsed.requirements().len(), 1, "{selector}");
    }
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(text in "[ab=!(),<> \\\\innotİ]{0,24}") {
        let _ = LabelSelector::parse(&text);
        let _ = FieldSelector::parse(&text);
    }
}
