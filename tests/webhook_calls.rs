//! The costs of webhook calls in this process: allocations, memory and connections. The counts are those of this thread, which runs all
//! code but the webhook; `allocations.rs` explains the bounds.

#![allow(clippy::unwrap_used)]

mod front;
mod hook;

use allocation_counter::{AllocationInfo, measure};
use bytes::Bytes;
use front::{Front, VALIDATING_HOOKS, create, hooks_elsewhere};
use hook::Hook;
use kube_admission_proxy::internal::admission::Attributes;
use kube_admission_proxy::internal::embedded;
use kubernetes_object::Object;
use serde_json::json;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};

const JSON: &str = "application/json";
const WARM_UP: usize = 10;
/// A busy machine delays the webhook's answer, so that it arrives in two parts, which costs allocations.
const ROUNDS: usize = 50;
/// The number of webhooks for the namespace `ten`.
const TEN: usize = 10;

/// The chain in front of namespaces with different webhooks: `none`, one `validating`, one `mutating`, and `ten` validating ones.
struct World {
    runtime: Runtime,
    front: Front,
    hooks: [Hook; 3],
}

impl World {
    /// Adds `elsewhere` webhooks that match none of the requests.
    fn new(elsewhere: usize) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let hooks = [Hook::start(), Hook::start(), Hook::start()];
        let server = embedded::Server::new(Arc::default());
        let front = runtime.block_on(async {
            let first = Front::new(&server, |transport| transport).await;
            let create = async |path: &str, body: String| {
                let (code, answer) = first.ask("POST", path, JSON, Bytes::from(body)).await;
                assert_eq!(code, 201, "{}", String::from_utf8_lossy(&answer));
            };
            for name in ["none", "validating", "mutating", "ten"] {
                create("/api/v1/namespaces", json!({"metadata": {"name": name}}).to_string()).await;
            }
            let [validating, mutating, ten] = &hooks;
            for (kind, configuration) in [
                ("validating", validating.configuration("Validating", "validating", "/", 1)),
                ("mutating", mutating.configuration("Mutating", "mutating", "/label", 1)),
                ("validating", ten.configuration("Validating", "ten", "/", TEN)),
            ] {
                let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations");
                create(&path, configuration).await;
            }
            create(VALIDATING_HOOKS, hooks_elsewhere("configmaps", elsewhere)).await;
            Front::new(&server, |transport| transport).await
        });
        Self { runtime, front, hooks }
    }

    /// The admission attributes of a create of a config map with `bytes` bytes of data.
    fn attributes(&self, namespace: &str, bytes: usize) -> Attributes {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": namespace},
            "data": {"x": "y".repeat(bytes)}});
        create("ConfigMap", "configmaps", Object::from_value(object).unwrap())
    }

    /// The smallest cost of several creates in this namespace.
    fn cheapest(&self, namespace: &str, bytes: usize) -> AllocationInfo {
        let mut cheapest: Option<AllocationInfo> = None;
        for round in 0..WARM_UP + ROUNDS {
            let mut attributes = self.attributes(namespace, bytes);
            let cost = measure(|| {
                let admitted = self.runtime.block_on(async {
                    self.front.chain.admit(&mut attributes).await?;
                    self.front.chain.validate(&mut attributes).await
                });
                assert!(admitted.is_ok(), "{admitted:?}");
            });
            let is_cheaper = cheapest.is_none_or(|cheapest| cost.count_total < cheapest.count_total);
            if round >= WARM_UP && is_cheaper {
                cheapest = Some(cost);
            }
        }
        cheapest.unwrap()
    }
}

#[test]
fn a_call_costs_no_more_than_it_did() {
    let world = World::new(0);
    let none = world.cheapest("none", 1000).count_total;
    let counts = [
        ("a validating call", world.cheapest("validating", 1000).count_total - none, 60),
        ("a mutating call with a patch", world.cheapest("mutating", 1000).count_total - none, 150),
    ];
    for (what, count, bound) in counts {
        println!("{what}: {count} allocations, at most {bound}");
    }

    const MEBIBYTE: usize = 1 << 20;
    let alone = world.cheapest("none", MEBIBYTE).bytes_max;
    let ten = world.cheapest("ten", MEBIBYTE).bytes_max - alone;
    println!("{TEN} hooks that see 1 MiB: {} KiB at the peak", ten >> 10);

    let connections = world.hooks.each_ref().map(Hook::connections);
    println!("connections: {connections:?}");
    for (what, count, bound) in counts {
        assert!(count <= bound, "{what}: {count} allocations, more than {bound}");
    }
    // All calls share one copy of the body; the rest are the bytes in flight.
    assert!(ten <= 2 * MEBIBYTE as u64, "{ten} bytes");
    // Sequential calls share one connection; ten concurrent calls have ten.
    assert!(connections[0] == 1 && connections[1] == 1 && connections[2] <= TEN, "{connections:?}");

    // All selectors are matched at once, with one list for each match.
    let many = World::new(1000).cheapest("none", 1000);
    let few = world.cheapest("none", 1000);
    let (count, bytes) =
        (many.count_total.saturating_sub(few.count_total), many.bytes_total.saturating_sub(few.bytes_total));
    println!("1,000 hooks that do not match: {count} allocations, {bytes} bytes");
    assert!(count <= 4 && bytes <= 4 * 4 * 1024, "{count} allocations, {bytes} bytes");
}
