//! The support of aggregated APIs for dry run: a server without support would store an object that was only tried. The OpenAPI
//! document shows the support, as it does to kubectl (`resource.QueryParamVerifierV3`).

use super::Caller;
use super::gateway::Gateway;
use super::target::Target;
use crate::answers::AnswerCache;
use crate::derived::Lazy;
use crate::status::Status;
use http::Method;
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// The highest number of group versions in the cache.
const REMEMBERED: u64 = 64;
const LIFETIME: Duration = Duration::from_secs(60);

/// A cache of documents: for every version of a group, the operations that support dry run.
pub(super) struct DryRuns(Lazy<AnswerCache<Arc<HashSet<String>>>>);

impl Default for DryRuns {
    fn default() -> Self {
        Self(Lazy::new(Box::new(|| AnswerCache::new(REMEMBERED))))
    }
}

impl DryRuns {
    /// Whether a request with this method may be a dry run; false if the document cannot be read.
    pub(super) async fn are_known(&self, gateway: &Gateway, caller: &Caller, method: &Method, target: &Target) -> bool {
        let (group, version) = (&*target.resource.group, &*target.resource.version);
        let key = self.0.key(&[group.as_bytes(), version.as_bytes()]);
        let look_up = || async {
            let document: Document =
                gateway.read_document(&format!("/openapi/v3/apis/{group}/{version}"), caller).await?;
            Ok::<_, Status>(Arc::new(document.dry_runs()))
        };
        match self.0.answer(key, |_| LIFETIME, look_up).await {
            Ok(known) => known.contains(&operation(method.as_str(), &path(target, method))),
            Err(error) => {
                tracing::debug!(group, version, %error, "no OpenAPI document tells whether an aggregated API supports dry run");
                false
            }
        }
    }
}

/// Returns the key of an operation: the method, and the path without the names of its parameters.
fn operation(method: &str, path: &str) -> String {
    format!("{} {path}", method.to_lowercase())
}

fn path(target: &Target, method: &Method) -> String {
    let resource = &target.resource;
    let mut path = format!("/apis/{}/{}", resource.group, resource.version);
    if !target.namespace.is_empty() {
        path.push_str("/namespaces/{}");
    }
    path.push_str(&format!("/{}", resource.resource));
    if *method != Method::POST || !target.subresource.is_empty() {
        path.push_str("/{}");
    }
    if !target.subresource.is_empty() {
        path.push_str(&format!("/{}", target.subresource));
    }
    path
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    paths: HashMap<String, HashMap<String, Operation>>,
}

/// An entry of a path. Only an operation may be a dry run.
#[derive(Deserialize)]
#[serde(untagged)]
enum Operation {
    Known {
        #[serde(default)]
        parameters: Vec<Parameter>,
    },
    Other(serde::de::IgnoredAny),
}

#[derive(Deserialize)]
struct Parameter {
    #[serde(default)]
    name: String,
    #[serde(default, rename = "in")]
    place: String,
}

impl Document {
    fn dry_runs(&self) -> HashSet<String> {
        let mut found = HashSet::new();
        for (path, operations) in &self.paths {
            let step = |step| if str::starts_with(step, '{') { "{}" } else { step };
            let path = path.split('/').map(step).collect::<Vec<_>>().join("/");
            let knows = |known: &&Operation| match known {
                Operation::Known { parameters } => {
                    parameters.iter().any(|parameter| parameter.name == "dryRun" && parameter.place == "query")
                }
                Operation::Other(_) => false,
            };
            let known = operations.iter().filter(|(_, known)| knows(known));
            found.extend(known.map(|(method, _)| operation(method, &path)));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_document_names_the_operations_with_dry_runs() {
        let dry_run = json!({"parameters": [{"name": "pretty", "in": "query"}, {"name": "dryRun", "in": "query"}]});
        let document = json!({"openapi": "3.0.0", "paths": {
            "/apis/a.test/v1/namespaces/{namespace}/things": {"post": dry_run, "get": {}, "parameters": [{"name": "dryRun"}]},
            "/apis/a.test/v1/namespaces/{namespace}/things/{name}": {"patch": dry_run, "put": {"parameters": [{"name": "x"}]},
                "parameters": [{"name": "dryRun", "in": "header"}]},
            "/apis/a.test/v1/": {"summary": "text"},
        }});
        let document: Document = serde_json::from_value(document).unwrap();
        let expected = ["post /apis/a.test/v1/namespaces/{}/things", "patch /apis/a.test/v1/namespaces/{}/things/{}"];
        assert_eq!(document.dry_runs(), expected.map(str::to_owned).into());
    }
}
