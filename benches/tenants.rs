//! The time of the choice among 1000 tenants: the address, the members, and the owner of a namespace. `make tenants` runs it.

#![allow(clippy::unwrap_used)]

use http::{HeaderMap, Uri};
use kube_admission_proxy::internal::UserInfo;
use kube_admission_proxy::internal::tenants::{Members, Origin, Owners, TenantAddresses, read, split_path};
use std::hint::black_box;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TENANTS: usize = 1_000;
/// Choices of a batch, and batches. The figure is that of the fastest batch, since other processes only make a batch slower.
const ROUNDS: u32 = 10_000;
const BATCHES: usize = 20;
/// The bound of the time of a choice.
const MOST_NANOSECONDS: u64 = 1_000;

/// CPU time of this thread in nanoseconds; the kernel updates it at context switches and ticks.
fn cpu_nanoseconds() -> u64 {
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, spec: &str| {
        let head = "apiVersion: config.kube-admission-proxy.dev/v1alpha1\nkind: Tenant";
        let text = format!("{head}\nmetadata: {{name: {name}}}\nspec: {spec}\n");
        std::fs::write(folder.path().join(format!("{name}.yaml")), text).unwrap();
    };
    write("default", "{}");
    for index in 0..TENANTS {
        let spec = format!(
            "{{members: [{{kind: Group, name: team-{index}}}, {{kind: ServiceAccount, namespace: t{index}-ci, name: \"*\"}}], \
             serverNames: [t{index}.example.com], namespaces: {{names: [\"t{index}-*\"]}}}}"
        );
        write(&format!("t{index}"), &spec);
    }
    let begun = Instant::now();
    let all = read(folder.path(), &[]).unwrap();
    println!("reading {} files: {:.1?}", all.len(), begun.elapsed());
    let (addresses, members, owners) = (TenantAddresses::new(&all), Members::new(&all), Owners::new(&all, &None));
    let headers = HeaderMap::new();
    let of = |name: &str, groups: &[&str]| UserInfo {
        username: name.to_owned(),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        ..UserInfo::default()
    };
    let person = of("alice", &["system:authenticated", "team-500"]);
    let account = of("system:serviceaccount:t500-ci:bot", &["system:serviceaccounts", "system:authenticated"]);
    let by_path = "/tenants/t500/api/v1/namespaces/t500-a/pods";
    let plain = "/api/v1/namespaces/t500-a/pods";
    for (what, path, server_name, caller) in [
        ("by path", by_path, None, &person),
        ("by path, for a service account", by_path, None, &account),
        ("by server name", plain, Some("t500.example.com"), &person),
        ("by caller", plain, None, &person),
    ] {
        let uri: Uri = path.parse().unwrap();
        let batch = |_| {
            let begun = cpu_nanoseconds();
            for _ in 0..ROUNDS {
                let split = split_path(&uri).unwrap();
                let name = split.as_ref().map(|(name, _)| *name);
                let found = addresses.find(name, server_name, &uri, &headers).unwrap();
                black_box((&found, members.of(caller, Origin::Process), owners.owner("t500-a", None)));
            }
            (cpu_nanoseconds() - begun) / u64::from(ROUNDS)
        };
        let each = (0..BATCHES).map(batch).min().unwrap();
        println!("choice {what}: {each} ns of a processor");
        assert!(each <= MOST_NANOSECONDS, "a choice takes {each} ns");
    }
}
