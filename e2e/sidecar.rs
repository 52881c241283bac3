//! The proxy beside an API server, as `print sidecar` lays them out, and Kubernetes' controllers in front of it.

use crate::harness::{
    Hidden, Kubectl, Program, Proxy, User, eventually_as, folder, free_port, get, only, pki, post, upstream,
};
use serde_json::{Value, json};
use std::net::{IpAddr, UdpSocket};
use std::path::Path;
use std::process::Command;

/// A part of the output of `print sidecar` for a control plane, as JSON.
fn print(control_plane: &str, arguments: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kube-admission-proxy"));
    let control_plane = format!("--for={control_plane}");
    let output = command.args(["print", "sidecar", &control_plane]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    kubernetes_object::decode::yaml(&output.stdout).unwrap().value
}

/// The address of this machine in its network, which an EndpointSlice may have. No packet is sent.
fn address() -> IpAddr {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect("192.0.2.1:9").expect("the machine has no address but the loopback");
    socket.local_addr().unwrap().ip()
}

/// The ports, files and flags of a control plane, from its own sources.
struct Layout {
    name: &'static str,
    /// The folder of the certificates in the container, and the files with the authorities of clients and of the API server.
    pki: &'static str,
    authorities: &'static [&'static str],
    port: u16,
    /// The pointers to the container and to the flag of kube-apiserver in the patch, and the ConfigMap's to the kubeconfig.
    container: &'static str,
    bind_address: &'static str,
}

const KUBEADM: Layout = Layout {
    name: "kubeadm",
    pki: "/etc/kubernetes/pki",
    authorities: &["ca.crt"],
    port: 6443,
    container: "/spec/containers/1",
    // The flag is in another object, which the comment names.
    bind_address: "/spec/containers/0/livenessProbe/httpGet/host",
};

const OTHERS: [Layout; 3] = [
    Layout {
        name: "kamaji",
        container: "/spec/controlPlane/deployment/additionalContainers/0",
        bind_address: "/spec/controlPlane/deployment/extraArgs/apiServer/0",
        ..KUBEADM
    },
    Layout {
        name: "vcluster",
        pki: "/data/pki",
        authorities: &["client-ca.crt", "server-ca.crt"],
        port: 6443,
        container: "/controlPlane/statefulSet/sidecarContainers/0",
        bind_address: "/controlPlane/distro/k8s/apiServer/extraArgs/0",
    },
    Layout {
        name: "karmada",
        pki: "/etc/karmada/pki",
        authorities: &["ca.crt"],
        port: 5443,
        container: "/spec/components/karmadaAPIServer/sidecarContainers/0",
        bind_address: "/spec/components/karmadaAPIServer/extraArgs/bind-address",
    },
];

impl Layout {
    /// Starts kube-apiserver and the proxy as the printed patch lays them out, on this port.
    fn start(&self, folder: &Path, port: u16, address: &str) -> (Hidden, Proxy) {
        let (pki, front_proxy) = (pki(), pki().front_proxy("front-proxy-client"));
        for (from, to) in [
            (&pki.server.certificate, "apiserver.crt"),
            (&pki.server.key, "apiserver.key"),
            (pki.front_proxy_ca(), "front-proxy-ca.crt"),
            (&front_proxy.certificate, "front-proxy-client.crt"),
            (&front_proxy.key, "front-proxy-client.key"),
        ] {
            std::fs::copy(from, folder.join(to)).unwrap();
        }
        for authority in self.authorities {
            std::fs::copy(pki.ca(), folder.join(authority)).unwrap();
        }
        let own = self.port.to_string();
        let here = |text: &str| {
            let text =
                text.replace(self.pki, folder.to_str().unwrap()).replace(&format!(":{own}"), &format!(":{port}"));
            text.replace("/etc/kubernetes/admission-proxy", folder.to_str().unwrap())
        };
        let kubeconfig = print(self.name, &["--part=kubeconfig"]);
        let kubeconfig = kubeconfig["data"]["upstream.conf"].as_str().map_or(kubeconfig.to_string(), str::to_owned);
        std::fs::write(folder.join("upstream.conf"), here(&kubeconfig)).unwrap();

        let patch = print(self.name, &["--", "--enable-admission-plugins=AlwaysPullImages"]);
        let bind_address = patch.pointer(self.bind_address).unwrap().as_str().unwrap();
        let mut flags = only(&[]);
        flags.extend([
            format!("--bind-address={}", bind_address.trim_start_matches("--bind-address=")),
            format!("--advertise-address={address}"),
            "--endpoint-reconciler-type=lease".to_owned(),
            "--requestheader-allowed-names=front-proxy-client".to_owned(),
        ]);
        let api_server = Hidden::start(port, &flags);

        let container = patch.pointer(self.container).unwrap();
        assert_eq!(container["name"], "kube-admission-proxy");
        let health = free_port();
        let arguments = container["args"].as_array().unwrap().iter().map(|argument| {
            let argument = here(argument.as_str().unwrap()).replace("$(ADDRESS):10280", &format!("127.0.0.1:{health}"));
            argument
                .replace("$(ADDRESS)", address)
                .replace(&format!("--secure-port={own}"), &format!("--secure-port={port}"))
                .replace(":10280", &format!(":{health}"))
        });
        (api_server, Proxy::with_arguments(port, health, &arguments.collect::<Vec<_>>()).ready())
    }
}

#[test]
fn the_layouts_of_other_control_planes_admit_and_name_the_caller() {
    let address = address().to_string();
    for layout in &OTHERS {
        let (_api_server, proxy) = layout.start(&folder(layout.name), free_port(), &address);
        let admin = User::admin();
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});
        assert_eq!(proxy.send(&admin, post("/api/v1/namespaces", &namespace)).status, 201, "{}", layout.name);
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        assert_eq!(
            proxy.send(&admin, post("/api/v1/namespaces/a/serviceaccounts", &account)).status,
            201,
            "{}",
            layout.name
        );
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
            "spec": {"containers": [{"name": "c", "image": "i", "imagePullPolicy": "IfNotPresent"}]}});
        let made = proxy.send(&admin, post("/api/v1/namespaces/a/pods", &pod)).json();
        assert_eq!(made["spec"]["containers"][0]["imagePullPolicy"], "Always", "{}: {made}", layout.name);
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let user = proxy.send(&User::developer(), post(reviews, &review)).json();
        assert_eq!(user["status"]["userInfo"]["username"], "alice", "{}: {user}", layout.name);
    }
}

#[test]
fn controllers_and_clients_of_a_kubeadm_control_plane_write_through_the_proxy() {
    let (folder, port, address) = (folder("sidecar"), free_port(), address().to_string());
    let (_api_server, proxy) = KUBEADM.start(&folder, port, &address);

    let controllers = [
        (
            "kube-controller-manager",
            vec![
                "--use-service-account-credentials=true".to_owned(),
                format!("--service-account-private-key-file={}", pki().service_accounts.key.display()),
                format!("--root-ca-file={}", pki().ca().display()),
            ],
        ),
        ("kube-scheduler", Vec::new()),
    ];
    let controllers = controllers.map(|(name, mut flags)| {
        let kubeconfig = proxy.kubeconfig(&User::named(&format!("system:{name}"), ""));
        flags.extend([
            format!("--kubeconfig={}", kubeconfig.display()),
            "--leader-elect=false".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", free_port()),
            format!("--cert-dir={}", folder.display()),
        ]);
        Program::start(name, &flags)
    });

    let admin = User::admin();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker"},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
                   "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}});
    let answer = proxy.send(&admin, post("/api/v1/nodes", &node));
    assert_eq!(answer.status, 201, "{}", answer.text());
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
                 "spec": {"containers": [{"name": "c", "image": "i", "imagePullPolicy": "IfNotPresent"}]}}}});
    // Deployments are not admitted by AlwaysPullImages; the pods that a controller makes of them are.
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    // The control plane is new: it makes the namespace at its start, or one minute later.
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    eventually_as("a deployment", || {
        proxy.send(&admin, post("/api/v1/namespaces", &namespace));
        let answer = proxy.send(&admin, post(deployments, &deployment));
        // 409 follows a create whose answer came too late.
        if matches!(answer.status, 201 | 409) { Ok(()) } else { Err(answer.text()) }
    });
    let pods = eventually_as("pods on the node", || {
        let pods = proxy.send(&admin, get("/api/v1/namespaces/default/pods")).json();
        let items = pods["items"].as_array().unwrap();
        if items.len() == 2 && items.iter().all(|pod| pod["spec"]["nodeName"] == "worker") {
            return Ok(items.clone());
        }
        Err(format!("{pods}\n{}", controllers.iter().map(Program::output).collect::<String>()))
    });
    for pod in pods {
        assert_eq!(pod["spec"]["containers"][0]["imagePullPolicy"], "Always", "{pod}");
        assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "ReplicaSet", "{pod}");
    }
    let slice = get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes");
    let slice = proxy.send(&admin, slice).json();
    assert_eq!(slice["endpoints"][0]["addresses"], json!([address]), "{slice}");
    assert_eq!(slice["ports"][0]["port"], json!(port), "{slice}");
}

#[test]
fn the_proxy_serves_on_several_addresses() {
    let proxy = Proxy::before(upstream(), &["--bind-address=127.0.0.3,127.0.0.4"]);
    let kubeconfig = |address: &str| {
        let path = proxy.kubeconfig(&User::developer());
        let config =
            std::fs::read_to_string(&path).unwrap().replace("https://127.0.0.1", &format!("https://{address}"));
        std::fs::write(&path, config).unwrap();
        Kubectl::new(path)
    };
    for address in ["127.0.0.1", "127.0.0.3", "127.0.0.4"] {
        let server = kubeconfig(address).run(&["get", "namespaces", "--tls-server-name=localhost"]);
        assert!(server.success, "{address}: {}", server.stderr);
    }
}
