//! Services: their endpoints take turns, appear and disappear.

use super::*;
use crate::cluster::Endpoints;

fn well() -> Misbehaviour {
    late(|mut stream, _| async move {
        while let Some(review) = request(&mut stream).await {
            write(&mut stream, answer(&review)).await;
        }
    })
}

/// A hook at port 443 of the service `hook`, whose endpoints are these servers, behind a bundle of all their authorities and more.
pub(super) fn world(servers: &[&Faulty], more: &str) -> World<ValidatingWebhooks> {
    let slices = servers.iter().map(|server| {
        let metadata = json!({"name": server.port.to_string(), "namespace": "default",
            "labels": {"kubernetes.io/service-name": "hook"}});
        json!({"metadata": metadata, "addressType": "IPv4", "ports": [{"name": "", "port": server.port}],
            "endpoints": [{"addresses": ["127.0.0.1"]}]})
    });
    let bundle: String = servers.iter().map(|server| &*server.ca).chain([more]).collect();
    let fields = json!({"timeoutSeconds": 1, "clientConfig": {"caBundle": STANDARD.encode(bundle),
        "service": {"name": "hook", "namespace": "default", "path": "/x"}}});
    let service = json!({"metadata": {"name": "hook", "namespace": "default"},
        "spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1", "ports": [{"port": 443}]}});
    let state = FixedState {
        services: vec![serde_json::from_value(service).unwrap()],
        validating_webhooks: vec![configuration(&[hook("w.lab.dev", "", None, fields)])],
        ..default_state()
    };
    validating_in(state.with::<Endpoints>(slices.map(|slice| serde_json::from_value(slice).unwrap()).collect()))
}

#[tokio::test]
async fn endpoints_take_turns_on_warm_connections() {
    let servers = [Faulty::start(well()), Faulty::start(well())];
    let world = world(&[&servers[0], &servers[1]], "");
    for _ in 0..6 {
        world.plugin.validate(&create(configmap())).await.unwrap();
    }
    assert_eq!(servers.each_ref().map(Faulty::accepted), [1, 1]);
}

#[tokio::test]
async fn an_endpoint_that_goes_takes_only_its_own_calls_with_it() {
    let (stays, goes) = (Faulty::start(well()), Faulty::start(well()));
    let world = world(&[&stays, &goes], "");
    for _ in 0..2 {
        world.plugin.validate(&create(configmap())).await.unwrap();
    }
    let port = goes.port;
    let tasks = Handle::current().metrics().num_alive_tasks();
    drop(goes);
    eventually("the end noticed", || Handle::current().metrics().num_alive_tasks() < tasks).await;
    let mut failures = Vec::new();
    for _ in 0..4 {
        let attributes = create(configmap());
        let result = world.plugin.validate(&attributes).await;
        failures.extend(result.is_err().then(|| failed_calling(&refused(result, &attributes), "w.lab.dev")));
    }
    let refused = format!(
        "failed to call webhook: Post \"https://hook.default.svc:443/x?timeout=1s\": dial tcp 127.0.0.1:{port}: connect: connection refused"
    );
    assert_eq!(failures, [refused.clone(), refused]);
    assert_eq!(stays.accepted(), 1);
}

#[tokio::test]
async fn a_service_without_endpoints_is_not_called() {
    let world = world(&[], "");
    let attributes = create(configmap());
    let status = refused(world.plugin.validate(&attributes).await, &attributes);
    // An empty bundle stands for the system's roots.
    let want = "failed to call webhook: Post \"https://hook.default.svc:443/x?timeout=1s\": no endpoints available for service \"hook\"";
    assert_eq!(failed_calling(&status, "w.lab.dev"), want);
}
