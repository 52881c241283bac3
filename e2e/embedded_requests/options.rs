//! The options in queries: how they are parsed, and what they do.

use super::{define, escaped, with_embedded};
use crate::harness::{Request, delete, get, patch, post, put};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

/// Texts that are no numbers, or not in every form.
const NUMBERS: [&str; 10] = ["", "x", "1.5", "-1", "+1", "1_0", "9223372036854775808", " 1", "0x1", "1e3"];

/// A watch that begins with the objects.
const LISTED: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";

#[test]
fn numbers_and_versions_in_queries_are_parsed_as_by_kube_apiserver() {
    with_embedded("parsed-options", |servers, place| {
        let custom = define(servers, place, "parsed.e2e.test");
        for path in [place.path("/api/v1/secrets"), custom] {
            for text in NUMBERS.map(escaped) {
                for option in ["timeoutSeconds", "limit"] {
                    servers.compare(get(&format!("{path}?{option}={text}")));
                }
                servers.compare(delete(&format!("{path}/a?dryRun=All&gracePeriodSeconds={text}")));
                servers.compare(delete(&format!("{path}?dryRun=All&limit={text}")));
            }
            for version in ["x", "-1", "+1", "1.5", "18446744073709551616", "", "0", "00"].map(escaped) {
                servers.compare(get(&format!("{path}/a?resourceVersion={version}")));
                for more in [
                    "",
                    "&limit=1",
                    "&resourceVersionMatch=Exact",
                    "&resourceVersionMatch=NotOlderThan",
                    "&fieldSelector=metadata.name%3Da",
                    "&continue=x",
                    "&watch=1&timeoutSeconds=1",
                ] {
                    servers.compare(get(&format!("{path}?resourceVersion={version}{more}")));
                }
            }
            for wanted in ["Exact", "NotOlderThan", "x", ""] {
                for more in [
                    "",
                    "&resourceVersion=0",
                    "&sendInitialEvents=true",
                    "&sendInitialEvents=",
                    "&continue=x",
                    "&watch=1&timeoutSeconds=1",
                    "&watch=1&sendInitialEvents=false&timeoutSeconds=1",
                    "&watch=1&continue=x&timeoutSeconds=1",
                ] {
                    servers.compare(get(&format!("{path}?resourceVersionMatch={wanted}{more}")));
                }
            }
        }
    });
}

#[test]
fn pages_tokens_and_selectors_are_those_of_kube_apiserver() {
    with_embedded("paged-options", |servers, place| {
        let custom = define(servers, place, "paged.e2e.test");
        let token = |json: &str| URL_SAFE_NO_PAD.encode(json);
        for path in [place.path("/api/v1/secrets"), custom] {
            for text in [
                "abc".to_owned(),
                "a".to_owned(),
                "ab=c".to_owned(),
                "e30".to_owned(),
                "!".to_owned(),
                token("{"),
                token("[]"),
                token("null"),
                token(r#"{"v":1}"#),
                token(r#"{"rv":1.5}"#),
                token(r#"{"rv":"x"}"#),
                token(r#"{"v":"v9","rv":1}"#),
                token(r#"{"v":"meta.k8s.io/v1"}"#),
                token(r#"{"v":"meta.k8s.io/v1","rv":1}"#),
                token(r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"../x"}"#),
                token(r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"b/"}"#),
                token(r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"b"}"#),
                token(r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"/b"}"#),
            ] {
                for more in ["", "&limit=1", "&resourceVersion=0", "&resourceVersion=5", "&resourceVersion=0&limit=1"] {
                    servers.compare(get(&format!("{path}?continue={}{more}", escaped(&text))));
                }
            }
            for query in [
                "limit=1&resourceVersion=0",
                "limit=1",
                "limit=2",
                "limit=3",
                "limit=-1",
                "limit=1&labelSelector=l%3Da",
                "limit=1&labelSelector=l%3Dc",
                "limit=2&labelSelector=l",
                "limit=1&fieldSelector=metadata.name%3Da",
                "limit=1&fieldSelector=metadata.name!%3Da",
                "limit=1&resourceVersionMatch=NotOlderThan&resourceVersion=1",
                "limit=1&resourceVersionMatch=NotOlderThan&resourceVersion=0",
            ] {
                servers.compare(get(&format!("{path}?{query}")));
                servers.compare(delete(&format!("{path}?dryRun=All&{query}")));
            }
            for text in ["a=b=c", "a in (b", "!", "a,,b", "=", "a>x", "a b", "-a=b"].map(escaped) {
                servers.compare(get(&format!("{path}?labelSelector={text}")));
                servers.compare(delete(&format!("{path}?dryRun=All&labelSelector={text}")));
            }
            for text in [
                "spec.foo=1",
                "metadata.name",
                "metadata.name=a=b",
                "x",
                "metadata.name!=a",
                "metadata.name=a\\",
                "=",
                "metadata.uid=x",
            ]
            .map(escaped)
            {
                servers.compare(get(&format!("{path}?fieldSelector={text}")));
                servers.compare(delete(&format!("{path}?dryRun=All&fieldSelector={text}")));
            }
        }
    });
}

#[test]
fn options_of_reads_and_writes_are_checked_as_by_kube_apiserver() {
    with_embedded("checked-options", |servers, place| {
        let custom = define(servers, place, "checked.e2e.test");
        let kinds = [
            (place.path("/api/v1/secrets"), json!({"apiVersion": "v1", "kind": "Secret"})),
            (custom, json!({"apiVersion": "checked.e2e.test/v1", "kind": "Wid"})),
        ];
        for (path, kind) in kinds {
            for query in ["export", "export=true", "export=false", "export=0", "resourceVersion=x&export=1"] {
                servers.compare(get(&format!("{path}/a?{query}")));
            }
            for include in ["x", "None", "Metadata", "Object", ""] {
                for form in ["Table", "PartialObjectMetadata"] {
                    for of in ["", "/a"] {
                        let accept = format!("application/json;as={form};v=v1;g=meta.k8s.io");
                        let request = get(&format!("{path}{of}?includeObject={include}"));
                        servers.compare(request.header("accept", &accept));
                    }
                }
            }
            for policy in ["Orphan", "Background", "Foreground", "x", ""] {
                for more in ["", "&orphanDependents=true", "&orphanDependents=false"] {
                    servers.compare(delete(&format!("{path}/a?dryRun=All&propagationPolicy={policy}{more}")));
                }
            }
            for query in
                ["sendInitialEvents=1", "watch=1", "timeoutSeconds=x", "resourceVersion=x", "continue=x", "uid=x"]
            {
                servers.compare(delete(&format!("{path}?dryRun=All&{query}")));
                servers.compare(delete(&format!("{path}/a?dryRun=All&{query}")));
            }
            let object = |name: &str| {
                let mut object = kind.clone();
                object["metadata"] = json!({"name": name});
                object
            };
            let long = format!("fieldManager={}", "x".repeat(129));
            for query in [
                "dryRun=",
                "dryRun=x",
                "dryRun=All&dryRun=x",
                &*long,
                "dryRun=All&fieldManager=%09",
                "dryRun=All&fieldManager=%E2%80%8B",
                "dryRun=All&fieldValidation=x",
                "dryRun=All&fieldValidation=",
                "dryRun=All&force=true",
                "dryRun=All&force=x",
                "dryRun=All&force=",
                "dryRun=All&gracePeriodSeconds=x",
            ] {
                let writes: [Request; 4] = [
                    post(&format!("{path}?{query}"), &object("new")),
                    put(&format!("{path}/a?{query}"), &object("a")),
                    patch(&format!("{path}/a?{query}"), "merge", &object("a")),
                    patch(&format!("{path}/a?{query}"), "apply", &object("a")),
                ];
                writes.into_iter().for_each(|request| servers.compare(request));
            }
        }
    });
}

#[test]
fn watches_begin_and_end_their_first_events_as_by_kube_apiserver() {
    with_embedded("watched-options", |servers, place| {
        let custom = define(servers, place, "watched.e2e.test");
        let end = format!("{LISTED}&allowWatchBookmarks=true");
        for (at, path) in [place.path("/api/v1/secrets"), custom].into_iter().enumerate() {
            for form in ["", ";as=Table;v=v1;g=meta.k8s.io", ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io"] {
                for query in [
                    format!("{end}&fieldSelector=metadata.name%3Dnone"),
                    end.clone(),
                    format!("{end}&includeObject=None"),
                    "allowWatchBookmarks=true&resourceVersion=0".to_owned(),
                    "includeObject=x".to_owned(),
                ] {
                    let request = get(&format!("{path}?watch=1&timeoutSeconds=1&{query}"));
                    servers.compare(request.header("accept", &format!("application/json{form}")));
                }
            }
            for query in [
                LISTED,
                "allowWatchBookmarks=true",
                "resourceVersion=9999999",
                "resourceVersion=x",
                "sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
            ] {
                servers.compare(get(&format!("{path}?watch=1&timeoutSeconds=1&{query}")));
            }
            // kube-apiserver waits three seconds for a version of the future.
            if at == 0 {
                servers.compare(get(&format!("{path}?watch=1&timeoutSeconds=9&{LISTED}&resourceVersion=9999999")));
            }
        }
        for path in ["/api/v1/watch/namespaces/{}/secrets", "/api/v1/watch/namespaces/{}/secrets/a"] {
            let path = path.replace("{}", &place.0);
            for query in [
                "resourceVersion=x",
                "sendInitialEvents=true",
                "resourceVersionMatch=NotOlderThan",
                "limit=x",
                "fieldSelector=metadata.name%3Db",
                "allowWatchBookmarks=true",
                "watch=true&allowWatchBookmarks=true",
            ] {
                servers.compare(get(&format!("{path}?timeoutSeconds=1&{query}")));
            }
        }
    });
}

#[test]
fn json_is_indented_for_people_as_by_kube_apiserver() {
    with_embedded("pretty-answers", |servers, place| {
        let custom = define(servers, place, "pretty.e2e.test");
        for path in [place.path("/api/v1/secrets"), custom, "/api/v1/none".to_owned(), "/apis/apps/v1".to_owned()] {
            for of in ["", "/a", "/none"] {
                for query in
                    ["", "?pretty", "?pretty=true", "?pretty=1", "?pretty=0", "?pretty=yes", "?pretty=&limit=x"]
                {
                    for agent in ["e2e/1.0", "curl/8.0", "Wget/1.0", "Mozilla/5.0 (x)"] {
                        let [expected, found] =
                            servers.answers(&get(&format!("{path}{of}{query}")).header("user-agent", agent));
                        let lines = [expected, found].map(|answer| {
                            let text = answer.text();
                            (answer.status, text.lines().next().unwrap_or_default() == "{", text.ends_with('\n'))
                        });
                        assert_eq!(lines[0], lines[1], "{path}{of}{query} {agent}");
                    }
                }
            }
        }
    });
}
