//! kube-apiserver's metrics of the version and of the feature gates (`k8s.io/component-base/metrics/version.go`,
//! `k8s.io/component-base/metrics/prometheus/feature`).

use crate::config::{FeatureGates, gates};
use crate::metrics::Registry;
use prometheus::{IntGaugeVec, Opts};

/// The platform, by Go's names.
const PLATFORM: &str = if cfg!(target_arch = "aarch64") { "linux/arm64" } else { "linux/amd64" };

/// Registers the metrics, whose values never change. The version is that of the emulated release.
///
/// # Errors
/// If the registry already has one of them.
pub(crate) fn register(registry: &Registry, features: &FeatureGates) -> prometheus::Result<()> {
    let gauge = |name: &str, help: &str, labels: &[&str]| IntGaugeVec::new(Opts::new(name, help), labels);
    let build = gauge(
        "kubernetes_build_info",
        "[BETA] A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, Go \
         version, and compiler from which Kubernetes was built, and platform on which it is running.",
        &[
            "major",
            "minor",
            "git_version",
            "git_commit",
            "git_tree_state",
            "build_date",
            "go_version",
            "compiler",
            "platform",
        ],
    )?;
    let release = features.release().to_string();
    let (major, minor) = release.split_once('.').unwrap_or((&release, ""));
    let commit = option_env!("KUBE_ADMISSION_PROXY_COMMIT").unwrap_or_default();
    let version = format!("v{release}.0");
    build.with_label_values(&[major, minor, &version, commit, "", "", "", "rustc", PLATFORM]).set(1);
    let enabled = gauge(
        "kubernetes_feature_enabled",
        "[BETA] This metric records the data about the stage and enablement of a k8s feature.",
        &["name", "stage"],
    )?;
    for (name, stage, is_on) in shown(features) {
        enabled.with_label_values(&[name, &stage]).set(is_on.into());
    }
    registry.register(Box::new(build))?;
    registry.register(Box::new(enabled))
}

/// The gates of the release with their stages and values. kube-apiserver writes no stage for gates that are generally available.
fn shown(features: &FeatureGates) -> impl Iterator<Item = (&'static str, String, bool)> {
    let [alpha, beta] = features.all();
    let all = [("AllAlpha", "ALPHA".to_owned(), alpha), ("AllBeta", "BETA".to_owned(), beta)];
    let gates = gates(features.release()).filter_map(|gate| {
        let facts = gate.facts.filter(|facts| !facts.removed)?;
        let stage = if facts.stage == "GA" { String::new() } else { facts.stage.to_uppercase() };
        Some((gate.name, stage, features.is_on(gate.name)))
    });
    all.into_iter().chain(gates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_have_the_stages_and_values_of_kube_apiserver() {
        let features = FeatureGates::of_release(36, "AllAlpha=true,ComponentStatusz=false");
        let registry = Registry::new();
        register(&registry, &features).unwrap();
        let text = registry.text().unwrap();
        for line in [
            r#"kubernetes_feature_enabled{name="AllAlpha",stage="ALPHA"} 1"#,
            r#"kubernetes_feature_enabled{name="AllBeta",stage="BETA"} 0"#,
            r#"kubernetes_feature_enabled{name="APIServerTracing",stage=""} 1"#,
            r#"kubernetes_feature_enabled{name="ComponentFlagz",stage="BETA"} 1"#,
            r#"kubernetes_feature_enabled{name="ComponentStatusz",stage="BETA"} 0"#,
            r#"kubernetes_feature_enabled{name="AllowDNSOnlyNodeCSR",stage="DEPRECATED"} 0"#,
        ] {
            assert!(text.lines().any(|found| found == line), "no {line}");
        }
        // As many as a kube-apiserver 1.36.3 has.
        assert_eq!(text.matches("kubernetes_feature_enabled{").count(), 242);
        assert!(text.contains(r#"git_version="v1.36.0""#) && text.contains(r#"major="1",minor="36""#), "{text}");
    }
}
