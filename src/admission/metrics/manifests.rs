//! `apiserver_manifest_admission_config_controller_*`: kube-apiserver's names and labels
//! (`admission/plugin/manifest/metrics`).

use crate::metrics::Registry;
use jiff::Timestamp;
use prometheus::{GaugeVec, IntCounterVec, IntGaugeVec, Opts};
use sha2::{Digest, Sha256};
use std::fmt::Write;

const PREFIX: &str = "apiserver_manifest_admission_config_controller_";

/// The metrics of watched folders.
#[derive(Clone, Debug)]
pub struct Metrics {
    reloads: IntCounterVec,
    last_reload: GaugeVec,
    last_config: IntGaugeVec,
    /// The label with this server's identity.
    id_hash: String,
}

impl Metrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// If one of the names is registered already.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let options = |name: &str, help: &str| Opts::new(format!("{PREFIX}{name}"), help);
        let labels = &["status", "plugin", "apiserver_id_hash"];
        let metrics = Self {
            reloads: IntCounterVec::new(
                options(
                    "automatic_reloads_total",
                    "[ALPHA] Total number of automatic reloads of admission manifest configuration split by status, plugin, and \
                     apiserver identity.",
                ),
                labels,
            )?,
            last_reload: GaugeVec::new(
                options(
                    "automatic_reload_last_timestamp_seconds",
                    "[ALPHA] Timestamp of the last automatic reload of admission manifest configuration split by status, plugin, \
                     and apiserver identity.",
                ),
                labels,
            )?,
            last_config: IntGaugeVec::new(
                options(
                    "last_config_info",
                    "[ALPHA] Information about the last applied admission manifest configuration with hash as label, split by \
                     plugin and apiserver identity.",
                ),
                &["plugin", "apiserver_id_hash", "hash"],
            )?,
            id_hash: sha256_text(&Sha256::digest(server_id(&host_name()))),
        };
        registry.register(Box::new(metrics.reloads.clone()))?;
        registry.register(Box::new(metrics.last_reload.clone()))?;
        registry.register(Box::new(metrics.last_config.clone()))?;
        Ok(metrics)
    }

    /// Counts a failed reload of a plugin's manifests.
    pub fn failed(&self, plugin: &str) {
        self.count("failure", plugin);
    }

    /// Counts a successful reload of a plugin's manifests, and sets their hash.
    pub(crate) fn loaded(&self, plugin: &str, before: Option<&str>, hash: &str) {
        self.count("success", plugin);
        if let Some(before) = before {
            // Removal fails only if the old hash is already gone, which is harmless.
            let _ = self.last_config.remove_label_values(&[plugin, &self.id_hash, before]);
        }
        self.last_config.with_label_values(&[plugin, &*self.id_hash, hash]).set(1);
    }

    fn count(&self, status: &str, plugin: &str) {
        let labels = [status, plugin, &*self.id_hash];
        self.reloads.with_label_values(&labels).inc();
        self.last_reload.with_label_values(&labels).set(Timestamp::now().as_duration().as_secs_f64());
    }
}

/// A hash as labels have it: the text `sha256:` and the digest in hexadecimal.
pub(crate) fn sha256_text(digest: &[u8]) -> String {
    digest.iter().fold("sha256:".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The host name of this machine; empty if it is unknown.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::env::var("HOSTNAME"));
    name.unwrap_or_default().trim().to_owned()
}

/// kube-apiserver's identity (`genericapiserver.NewConfig`).
fn server_id(host_name: &str) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut digest = Sha256::new();
    for part in [host_name, "kube-apiserver"] {
        digest.update(u16::try_from(part.len()).unwrap_or(u16::MAX).to_be_bytes());
        digest.update(part);
    }
    let digest = digest.finalize();
    let bit =
        |at: usize| digest.get(at / 8).filter(|_| at < 128).map_or(0, |byte| usize::from(byte >> (7 - at % 8) & 1));
    let letter = |start: usize| (start..start + 5).fold(0, |value, at| value << 1 | bit(at));
    let letters = (0..128).step_by(5).filter_map(|start| LETTERS.get(letter(start))).map(|letter| char::from(*letter));
    format!("apiserver-{}", letters.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_named_as_kube_apiserver_names_itself() {
        // The identity is base32(sha256(00 03 "lab" 00 0e "kube-apiserver")[:16]), in lower case and without padding.
        assert_eq!(server_id("lab"), "apiserver-fxyybb3dhyfnee2rrgbb77ggn4");
    }
}
