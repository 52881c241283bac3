//! `print sidecar`: the patch or values that put the proxy beside the API server of a control plane, on the API server's own address and
//! port. The API server moves to another loopback address, so that the port stays the same and all addresses that the control plane
//! publishes are the proxy's.

use super::arguments::{Arguments, Command, ControlPlane, Sidecar, SidecarPart};
use super::{Failure, serve};
use clap::Parser as _;

/// The address of the API server behind the proxy.
const API_SERVER: &str = "127.0.0.2";
/// The folder of the upstream kubeconfig in the proxy's container, and on the node of a kubeadm cluster.
const FOLDER: &str = "/etc/kubernetes/admission-proxy";
/// The user of the proxy's own requests: a front proxy may name any user.
const OWN_USER: &str = "system:kube-admission-proxy,system:masters";

/// The variable of the container with the address that clients know.
const ADDRESS: &str = "$(ADDRESS)";

/// The place of the proxy's container in one control plane.
struct Layout {
    /// The downward API's field with the address that clients know.
    address_field: &'static str,
    /// Whether no client is outside of the pod.
    is_inside: bool,
    port: u16,
    /// The folder of the certificates, the volume that has it, and where the volume is mounted.
    pki: &'static str,
    pki_volume: &'static str,
    pki_mount: &'static str,
    /// The files with the authorities of clients' certificates and of the API server's certificate.
    client_authority: &'static str,
    server_authority: &'static str,
    /// The host of probes: the pod's address if there is none.
    probe_host: Option<&'static str>,
    /// Whether only root may read the private keys.
    is_root: bool,
}

impl Layout {
    fn of(control_plane: ControlPlane) -> Self {
        let kubernetes = "/etc/kubernetes/pki";
        let layout = |port, pki, pki_volume| Self {
            address_field: "status.podIP",
            is_inside: false,
            port,
            pki,
            pki_volume,
            pki_mount: pki,
            client_authority: "ca.crt",
            server_authority: "ca.crt",
            probe_host: None,
            is_root: false,
        };
        match control_plane {
            ControlPlane::Kubeadm => Self {
                address_field: "status.hostIP",
                probe_host: Some("127.0.0.1"),
                is_root: true,
                ..layout(6443, kubernetes, "k8s-certs")
            },
            ControlPlane::Kamaji => layout(6443, kubernetes, "etc-kubernetes-pki"),
            ControlPlane::Vcluster => Self {
                is_inside: true,
                pki_mount: "/data",
                client_authority: "client-ca.crt",
                server_authority: "server-ca.crt",
                is_root: true,
                ..layout(6443, "/data/pki", "data")
            },
            ControlPlane::Karmada => layout(5443, "/etc/karmada/pki", "apiserver-cert"),
        }
    }

    /// The arguments of the container.
    fn arguments(&self, flags: &Sidecar) -> Vec<String> {
        let Self { port, pki, client_authority, .. } = self;
        let others = if self.is_inside { String::new() } else { format!("{ADDRESS},") };
        let health = self.probe_host.unwrap_or(ADDRESS);
        let mut arguments: Vec<String> = vec![
            "serve".into(),
            format!("--bind-address={others}127.0.0.1"),
            format!("--secure-port={port}"),
            format!("--health-bind-address={health}:10280"),
            format!("--tls-cert-file={pki}/apiserver.crt"),
            format!("--tls-private-key-file={pki}/apiserver.key"),
            format!("--client-ca-file={pki}/{client_authority}"),
            format!("--requestheader-client-ca-file={pki}/front-proxy-ca.crt"),
            "--requestheader-allowed-names=front-proxy-client".into(),
            "--requestheader-username-headers=X-Remote-User".into(),
            "--requestheader-group-headers=X-Remote-Group".into(),
            "--requestheader-extra-headers-prefix=X-Remote-Extra-".into(),
            "--anonymous-auth=true".into(),
            format!("--upstream-kubeconfig={FOLDER}/upstream.conf"),
            "--upstream-identity=requestheader".into(),
            format!("--upstream-own-user={OWN_USER}"),
        ];
        arguments.extend(flags.serve_flags.iter().cloned());
        arguments
    }

    /// The container, as an item of a list at this indentation.
    fn container(&self, flags: &Sidecar, indentation: usize) -> String {
        let Self { address_field, pki_volume, pki_mount, .. } = self;
        let host = self.probe_host.map(|host| format!("host: {host}, ")).unwrap_or_default();
        let arguments = self.arguments(flags);
        let probe = |path: &str| format!("{{httpGet: {{{host}port: 10280, path: {path}, scheme: HTTP}}}}");
        let mut lines = vec![
            "- name: kube-admission-proxy".to_owned(),
            format!("  image: {}", quoted(&flags.image)),
            "  args:".to_owned(),
        ];
        lines.extend(arguments.iter().map(|argument| format!("    - {}", quoted(argument))));
        lines.extend([
            "  env:".to_owned(),
            format!("    - {{name: ADDRESS, valueFrom: {{fieldRef: {{fieldPath: {address_field}}}}}}}"),
            format!("  livenessProbe: {}", probe("/livez")),
            format!("  readinessProbe: {}", probe("/readyz")),
            "  volumeMounts:".to_owned(),
            format!("    - {{name: {pki_volume}, mountPath: {pki_mount}, readOnly: true}}"),
            format!("    - {{name: admission-proxy, mountPath: {FOLDER}, readOnly: true}}"),
        ]);
        if self.is_root {
            lines.push("  securityContext: {runAsUser: 0, runAsGroup: 0}".to_owned());
        }
        indented(&lines.join("\n"), indentation)
    }

    /// The kubeconfig: the API server's own address, and the certificate of a front proxy.
    fn kubeconfig(&self) -> String {
        let Self { port, pki, server_authority, .. } = self;
        format!(
            r#"apiVersion: v1
kind: Config
current-context: upstream
clusters:
  - name: upstream
    cluster:
      server: https://{API_SERVER}:{port}
      # The certificate has no name for the address.
      tls-server-name: kubernetes
      certificate-authority: {pki}/{server_authority}
users:
  - name: front-proxy
    user:
      client-certificate: {pki}/front-proxy-client.crt
      client-key: {pki}/front-proxy-client.key
contexts:
  - name: upstream
    context: {{cluster: upstream, user: front-proxy}}
"#
        )
    }
}

/// Returns the patch or the kubeconfig for a control plane, as YAML.
///
/// # Errors
/// If `serve` would refuse the flags: the container would start again and again, and nobody would reach the API server, whose address the
/// container has. Files are not looked for, because they are on another machine.
pub(super) fn sidecar(flags: &Sidecar) -> Result<String, Failure> {
    let layout = Layout::of(flags.control_plane);
    let arguments = layout.arguments(flags);
    let line = ["kube-admission-proxy"].into_iter().chain(arguments.iter().map(String::as_str));
    if let Command::Serve(given) =
        Arguments::try_parse_from(line.map(|word| word.replace(ADDRESS, API_SERVER)))?.command
    {
        serve::check_plugins(&given.admission)?;
    }
    Ok(text(flags, &layout))
}

fn text(flags: &Sidecar, layout: &Layout) -> String {
    let config_map = "admission-proxy-upstream";
    let volume = format!("- {{name: admission-proxy, configMap: {{name: {config_map}}}}}");
    match (flags.part, flags.control_plane) {
        (SidecarPart::Kubeconfig, ControlPlane::Kubeadm) => {
            format!("# {FOLDER}/upstream.conf on every control plane node.\n{}", layout.kubeconfig())
        }
        (SidecarPart::Kubeconfig, _) => format!(
            "# In the namespace of the API server's pod.\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {config_map}\ndata:\n  upstream.conf: |\n{}\n",
            indented(layout.kubeconfig().trim_end(), 4)
        ),
        (SidecarPart::Patch, ControlPlane::Kubeadm) => format!(
            r#"# kube-apiserver0+strategic.yaml in the folder that `patches.directory` of InitConfiguration and JoinConfiguration names.
# In ClusterConfiguration: apiServer.extraArgs: [{{name: bind-address, value: {API_SERVER}}}]
apiVersion: v1
kind: Pod
metadata:
  name: kube-apiserver
  namespace: kube-system
spec:
  containers:
    - name: kube-apiserver
      # The address that clients know is the proxy's.
      startupProbe: {{httpGet: {{host: {API_SERVER}}}}}
      livenessProbe: {{httpGet: {{host: {API_SERVER}}}}}
      readinessProbe: {{httpGet: {{host: {API_SERVER}}}}}
{}
  volumes:
    - name: admission-proxy
      hostPath: {{path: {FOLDER}, type: Directory}}
"#,
            layout.container(flags, 4)
        ),
        (SidecarPart::Patch, ControlPlane::Kamaji) => format!(
            r#"# A merge patch of the TenantControlPlane. spec.networkProfile.port is 6443.
spec:
  controlPlane:
    deployment:
      extraArgs:
        apiServer: ["--bind-address={API_SERVER}"]
      additionalContainers:
{}
      additionalVolumes:
        {volume}
"#,
            layout.container(flags, 8)
        ),
        (SidecarPart::Patch, ControlPlane::Vcluster) => format!(
            r#"# Values of the chart vcluster. The proxy is between the syncer and the virtual API server.
controlPlane:
  distro:
    k8s:
      apiServer:
        extraArgs: ["--bind-address={API_SERVER}"]
  statefulSet:
    sidecarContainers:
{}
    persistence:
      addVolumes:
        {volume}
"#,
            layout.container(flags, 6)
        ),
        (SidecarPart::Patch, ControlPlane::Karmada) => format!(
            r#"# A merge patch of the Karmada object of the operator.
spec:
  components:
    karmadaAPIServer:
      extraArgs:
        bind-address: {API_SERVER}
      sidecarContainers:
{}
      extraVolumes:
        {volume}
"#,
            layout.container(flags, 8)
        ),
    }
}

/// A string literal of YAML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn indented(text: &str, spaces: usize) -> String {
    let indentation = " ".repeat(spaces);
    text.lines().map(|line| format!("{indentation}{line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::arguments::Print;
    use super::*;
    use serde_json::{Value, json};

    fn printed(arguments: &[&str]) -> Result<String, Failure> {
        let line = ["kube-admission-proxy", "print", "sidecar"].iter().chain(arguments);
        let Command::Print(Print::Sidecar(flags)) = Arguments::try_parse_from(line).unwrap().command else {
            panic!("not sidecar");
        };
        sidecar(&flags)
    }

    fn print(arguments: &[&str]) -> Value {
        crate::object::decode::yaml(printed(arguments).unwrap().as_bytes()).unwrap().value
    }

    #[test]
    fn flags_that_serve_would_refuse_are_not_printed() {
        for (flag, why) in [
            ("--enable-admission-plugin=AlwaysPullImages", "unexpected argument '--enable-admission-plugin'"),
            ("--enable-admission-plugins=AlwaysPullImage", "similar: \"AlwaysPullImages\""),
            ("--request-timeout=5", "missing unit in duration"),
        ] {
            let error = printed(&["--for=kubeadm", "--", flag]).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn every_patch_has_the_container_and_moves_the_api_server() {
        for (control_plane, containers, address, port) in [
            ("kubeadm", "/spec/containers", "/spec/containers/0/livenessProbe/httpGet/host", 6443),
            (
                "kamaji",
                "/spec/controlPlane/deployment/additionalContainers",
                "/spec/controlPlane/deployment/extraArgs/apiServer/0",
                6443,
            ),
            (
                "vcluster",
                "/controlPlane/statefulSet/sidecarContainers",
                "/controlPlane/distro/k8s/apiServer/extraArgs/0",
                6443,
            ),
            (
                "karmada",
                "/spec/components/karmadaAPIServer/sidecarContainers",
                "/spec/components/karmadaAPIServer/extraArgs/bind-address",
                5443,
            ),
        ] {
            let own = format!("--for={control_plane}");
            let patch =
                print(&[&own, "--image=i", "--", "--enable-admission-plugins=AlwaysAdmit,AlwaysPullImages", "-v=2"]);
            let address = patch.pointer(address).unwrap().as_str().unwrap();
            assert!(address.ends_with("127.0.0.2"), "{patch}");
            let container = patch.pointer(containers).unwrap().as_array().unwrap().last().unwrap();
            assert_eq!(container["image"], "i");
            let arguments: Vec<&str> = container["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            assert!(arguments.contains(&&*format!("--secure-port={port}")), "{arguments:?}");
            assert!(
                arguments.ends_with(&["--enable-admission-plugins=AlwaysAdmit,AlwaysPullImages", "-v=2"]),
                "{arguments:?}"
            );
            let line = [&["kube-admission-proxy"], &arguments[..]].concat();
            let line = line.iter().map(|argument| argument.replace("$(ADDRESS)", "10.0.0.1"));
            Arguments::try_parse_from(line).unwrap();

            let kubeconfig = print(&[&own, "--part=kubeconfig"]);
            let kubeconfig = match kubeconfig["data"]["upstream.conf"].as_str() {
                Some(text) => crate::object::decode::yaml(text.as_bytes()).unwrap().value,
                None => kubeconfig,
            };
            assert_eq!(kubeconfig["clusters"][0]["cluster"]["server"], json!(format!("https://127.0.0.2:{port}")));
        }
    }
}
