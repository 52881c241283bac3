use super::*;

#[test]
fn pods_have_a_column_for_their_state() {
    let run = json!({"running": {}});
    let done = json!({"terminated": {"exitCode": 0, "reason": "Completed"}});
    let rows = [
        (json!({"phase": "Pending"}), "0/2", "Pending", "0"),
        (json!({"phase": "Failed", "reason": "Evicted"}), "0/2", "Evicted", "0"),
        (json!({"conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}), "0/2", "SchedulingGated", "0"),
        (
            json!({"phase": "Running", "containerStatuses": [
                {"state": run, "ready": true, "restartCount": 3,
                 "lastState": {"terminated": {"finishedAt": "2026-01-09T00:00:00Z"}}},
                {"state": run, "ready": true}]}),
            "2/2",
            "Running",
            "3 (24h ago)",
        ),
        (
            json!({"phase": "Running", "containerStatuses": [
                {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 1}, {"state": done}]}),
            "0/2",
            "CrashLoopBackOff",
            "1",
        ),
        (json!({"containerStatuses": [{"state": {"terminated": {"exitCode": 2}}}]}), "0/2", "ExitCode:2", "0"),
        (json!({"containerStatuses": [{"state": {"terminated": {"signal": 9}}}]}), "0/2", "Signal:9", "0"),
        (json!({"containerStatuses": [{"state": done}]}), "0/2", "Completed", "0"),
        (
            json!({"containerStatuses": [{"state": done}, {"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}),
            "0/2",
            "Error",
            "0",
        ),
        (json!({"containerStatuses": [{"state": done}, {"state": run, "ready": true}]}), "1/2", "NotReady", "0"),
        (
            json!({"conditions": [{"type": "Ready", "status": "True"}],
                   "containerStatuses": [{"state": done}, {"state": run, "ready": true}]}),
            "1/2",
            "Running",
            "0",
        ),
    ];
    for (status, ready, text, restarts) in rows {
        let pod = json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}, "status": status});
        let cells = cells_of("/api/v1/pods", pod);
        assert_eq!(
            cells,
            json!(["x", ready, text, restarts, "5d", "<none>", "<none>", "<none>", "<none>"]),
            "{status}"
        );
    }
}

#[test]
fn the_state_of_a_pod_counts_its_init_containers() {
    let sidecar = json!({"name": "i2", "state": {"running": {}}, "started": true, "ready": true, "restartCount": 2});
    let first = json!({"name": "i1", "state": {"terminated": {"exitCode": 0}}});
    let failed = json!({"name": "i3", "state": {"terminated": {"exitCode": 5}}, "restartCount": 4});
    let rows = [
        (json!([{"name": "i1", "state": {"running": {}}}]), "0/2", "Init:0/3", "0"),
        (json!([first, sidecar, failed]), "1/2", "Init:ExitCode:5", "6"),
        (
            json!([{"name": "i1", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]),
            "0/2",
            "Init:Error",
            "0",
        ),
        (json!([{"name": "i1", "state": {"terminated": {"exitCode": 1, "signal": 15}}}]), "0/2", "Init:Signal:15", "0"),
        (
            json!([{"name": "i1", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]),
            "0/2",
            "Init:ImagePullBackOff",
            "0",
        ),
        (json!([{"name": "i1", "state": {"waiting": {"reason": "PodInitializing"}}}]), "0/2", "Init:0/3", "0"),
        // All init containers are done: only the sidecar's restarts count.
        (
            json!([first, sidecar, {"name": "i3", "restartCount": 4, "state": {"terminated": {"exitCode": 0}}}]),
            "1/2",
            "Pending",
            "2",
        ),
    ];
    for (statuses, ready, text, restarts) in rows {
        let init = json!([{"name": "i1"}, {"name": "i2", "restartPolicy": "Always"}, {"name": "i3"}]);
        let spec = json!({"containers": [{"name": "a"}], "initContainers": init});
        let pod = json!({"spec": spec, "status": {"phase": "Pending", "initContainerStatuses": statuses}});
        let cells = cells_of("/api/v1/pods", pod);
        assert_eq!(json!([cells[1], cells[2], cells[3]]), json!([ready, text, restarts]), "{statuses}");
    }
}

#[test]
fn the_state_of_a_pod_shows_its_end() {
    let deleted = json!({"deletionTimestamp": NOW});
    for (phase, reason, expected) in
        [("Running", "", "Terminating"), ("Running", "NodeLost", "Unknown"), ("Succeeded", "", "Succeeded")]
    {
        let pod = json!({"metadata": deleted, "status": {"phase": phase, "reason": reason}});
        assert_eq!(cells_of("/api/v1/pods", pod)[2], expected);
    }
    let row = |phase: &str| {
        let pod = json!({"metadata": {}, "status": {"phase": phase}});
        table(at("/api/v1/pods"), &[pod], None, IncludeObject::None, NOW.parse().unwrap())["rows"][0].clone()
    };
    assert_eq!(row("Failed")["conditions"][0]["reason"], "Failed");
    assert_eq!(row("Succeeded")["conditions"][0]["type"], "Completed");
    assert!(row("Running").get("conditions").is_none());
    let wide = json!({"spec": {"nodeName": "n", "readinessGates": [{"conditionType": "g"}, {"conditionType": "h"}]},
        "status": {"podIPs": [{"ip": "1.2.3.4"}], "nominatedNodeName": "m", "conditions": [{"type": "g", "status": "True"}]}});
    let cells = cells_of("/api/v1/pods", wide);
    assert_eq!(json!(cells.as_array().unwrap()[5..]), json!(["1.2.3.4", "n", "m", "1/2"]));
}
