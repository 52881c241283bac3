//! Pods: the column "Status" combines the phase, the conditions and the states of all containers (`printPod`).

use super::view::View;
use jiff::Timestamp;
use serde_json::{Value, json};

pub(super) fn pod(pod: View<'_>) -> Vec<Value> {
    let mut summary = Summary::of_the_pod_itself(pod);
    let initializing = summary.add_init_containers(pod);
    if !initializing || pod.is_true("/status/conditions", "Initialized") {
        summary.add_containers(pod);
    }
    let phase = pod.text("/status/phase");
    if pod.is_terminating() && pod.text("/status/reason") == "NodeLost" {
        summary.reason = "Unknown".to_owned();
    } else if pod.is_terminating() && !matches!(phase, "Failed" | "Succeeded") {
        summary.reason = "Terminating".to_owned();
    }
    let restarts = match summary.last_restart {
        Some(last) if summary.restarts != 0 => format!("{} ({} ago)", summary.restarts, pod.elapsed(last)),
        _ => summary.restarts.to_string(),
    };
    vec![
        pod.name(),
        json!(format!("{}/{}", summary.ready, summary.total)),
        json!(summary.reason),
        json!(restarts),
        pod.age(),
        json!(pod.text_or("/status/podIPs/0/ip", "<none>")),
        json!(pod.text_or("/spec/nodeName", "<none>")),
        json!(pod.text_or("/status/nominatedNodeName", "<none>")),
        json!(readiness_gates(pod)),
    ]
}

/// The conditions of a finished pod's row, which kubectl's `--watch` and old clients read.
pub(super) fn row_conditions(pod: View<'_>) -> Option<Value> {
    let (reason, message) = match pod.text("/status/phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

struct Summary {
    reason: String,
    restarts: i64,
    last_restart: Option<Timestamp>,
    /// The restarts of sidecars only, which count once the pod is initialized.
    sidecar_restarts: i64,
    last_sidecar_restart: Option<Timestamp>,
    ready: usize,
    total: usize,
}

impl Summary {
    fn of_the_pod_itself(pod: View<'_>) -> Self {
        let mut conditions = pod.items("/status/conditions");
        let gated = conditions.any(|condition| {
            (condition.text("/type"), condition.text("/reason")) == ("PodScheduled", "SchedulingGated")
        });
        let reason = if gated { "SchedulingGated" } else { pod.text_or("/status/reason", pod.text("/status/phase")) };
        let sidecars = pod.items("/spec/initContainers").filter(|container| is_sidecar(*container)).count();
        Self {
            reason: reason.to_owned(),
            restarts: 0,
            last_restart: None,
            sidecar_restarts: 0,
            last_sidecar_restart: None,
            ready: 0,
            total: pod.count("/spec/containers") + sidecars,
        }
    }

    /// Counts the init containers up to the first unfinished one. Returns whether there is an unfinished one.
    fn add_init_containers(&mut self, pod: View<'_>) -> bool {
        for (at, status) in pod.items("/status/initContainerStatuses").enumerate() {
            let name = status.text("/name");
            let sidecar = pod.items("/spec/initContainers").any(|each| each.text("/name") == name && is_sidecar(each));
            let restarted = status.time("/lastState/terminated/finishedAt");
            self.restarts += status.number("/restartCount");
            self.last_restart = self.last_restart.max(restarted);
            if sidecar {
                self.sidecar_restarts += status.number("/restartCount");
                self.last_sidecar_restart = self.last_sidecar_restart.max(restarted);
            }
            let terminated = status.has("/state/terminated");
            if terminated && status.number("/state/terminated/exitCode") == 0 {
                continue;
            }
            if sidecar && status.flag("/started") {
                self.ready += usize::from(status.flag("/ready"));
                continue;
            }
            let waiting = status.text("/state/waiting/reason");
            self.reason = if terminated {
                format!("Init:{}", terminated_reason(status))
            } else if !waiting.is_empty() && waiting != "PodInitializing" {
                format!("Init:{waiting}")
            } else {
                format!("Init:{at}/{}", pod.count("/spec/initContainers"))
            };
            return true;
        }
        false
    }

    fn add_containers(&mut self, pod: View<'_>) {
        self.restarts = self.sidecar_restarts;
        self.last_restart = self.last_sidecar_restart;
        let mut has_running = false;
        let mut error_reason = None;
        // In reverse order, so that the first container's reason remains.
        for status in pod.items("/status/containerStatuses").rev() {
            self.restarts += status.number("/restartCount");
            self.last_restart = self.last_restart.max(status.time("/lastState/terminated/finishedAt"));
            let waiting = status.text("/state/waiting/reason");
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if status.has("/state/terminated") {
                self.reason = terminated_reason(status);
                if status.number("/state/terminated/exitCode") != 0 {
                    error_reason = Some(self.reason.clone());
                }
            } else if status.flag("/ready") && status.has("/state/running") {
                has_running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            if has_running && pod.items("/status/conditions").any(is_ready) {
                self.reason = "Running".to_owned();
            } else if let Some(reason) = error_reason {
                self.reason = reason;
            } else if has_running {
                self.reason = "NotReady".to_owned();
            }
        }
    }
}

fn is_sidecar(container: View<'_>) -> bool {
    container.text("/restartPolicy") == "Always"
}

fn is_ready(condition: View<'_>) -> bool {
    (condition.text("/type"), condition.text("/status")) == ("Ready", "True")
}

fn terminated_reason(status: View<'_>) -> String {
    let reason = status.text("/state/terminated/reason");
    match (reason, status.number("/state/terminated/signal")) {
        ("", 0) => format!("ExitCode:{}", status.number("/state/terminated/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn readiness_gates(pod: View<'_>) -> String {
    let gates = pod.items("/spec/readinessGates");
    let count = gates.len();
    if count == 0 {
        return "<none>".to_owned();
    }
    let open = gates.filter(|gate| pod.is_true("/status/conditions", gate.text("/conditionType"))).count();
    format!("{open}/{count}")
}
