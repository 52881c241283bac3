//! The API servers that tenants name.

use super::{Config, Connected, Finding, upstream};
use crate::app::backend::Upstream;
use crate::app::tenancy::{OfTenants, api_servers};
use crate::server::Drain;
use futures_util::stream::{self, StreamExt};

/// API servers that are examined at the same time.
const AT_ONCE: usize = 16;

/// Findings about the folder of tenants and the API servers that they name; nothing without a folder.
pub(super) async fn findings(config: &Config) -> Vec<Finding> {
    const CHECK: &str = "tenants";
    let Some(folder) = &config.tenants_dir else { return Vec::new() };
    let servers = match api_servers(folder, config) {
        Ok(servers) => servers,
        Err(faults) => {
            let advice = "\"kube-admission-proxy check --tenants-dir\" shows all errors";
            let first = faults.first().map(ToString::to_string).unwrap_or_default();
            return vec![Finding::failure(CHECK, format!("{} errors, the first one: {first}", faults.len()), advice)];
        }
    };
    let mut findings = vec![Finding::ok(CHECK, format!("valid, with {} API servers of their own", servers.len()))];
    let examined: Vec<Vec<Finding>> = stream::iter(servers).map(examined).buffered(AT_ONCE).collect().await;
    findings.extend(examined.into_iter().flatten());
    findings
}

async fn examined(server: OfTenants) -> Vec<Finding> {
    let drain = Drain::new();
    let connected = Upstream::of_tenants(&server.config, &drain, None).await;
    let mut findings = match connected.as_ref().map(Connected::of) {
        Ok(Some(connected)) => upstream::findings(&server.config, &connected).await.0,
        Ok(None) => Vec::new(),
        Err(error) => vec![Connected::failed(error)],
    };
    findings.iter_mut().for_each(|finding| finding.tenants.clone_from(&server.tenants));
    findings
}
