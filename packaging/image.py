"""The container image: one layer with the binary, as an OCI image layout in a tar archive."""
import hashlib
import json
from datetime import datetime, timezone

from archives import tar, zipped

# The user of distroless images' `nonroot`.
USER = 65532


def image(binary, authorities, licences, version, architecture, time):
    """Returns the archive. The image has no shell, and nothing can be written in it."""
    root = {
        "etc/group": (0o644, f"root:x:0:\nnonroot:x:{USER}:\n".encode()),
        "etc/passwd": (
            0o644,
            f"root:x:0:0:root:/:/sbin/nologin\nnonroot:x:{USER}:{USER}:nonroot:/:/sbin/nologin\n".encode(),
        ),
        "etc/ssl/certs/ca-certificates.crt": (0o644, authorities),
        "usr/bin/kube-admission-proxy": (0o755, binary),
        **{f"usr/share/doc/kube-admission-proxy/{name}": (0o644, text) for name, text in licences.items()},
    }
    layer = tar(root, time)
    blobs = {}

    def blob(data, media_type, **more):
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = (0o644, data)
        return {"mediaType": f"application/vnd.oci.image.{media_type}", "digest": f"sha256:{digest}", "size": len(data), **more}

    created = datetime.fromtimestamp(time, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    labels = {
        "org.opencontainers.image.title": "kube-admission-proxy",
        "org.opencontainers.image.description": "Kubernetes admission control outside kube-apiserver",
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.version": version,
    }
    config = {
        "created": created,
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "Entrypoint": ["/usr/bin/kube-admission-proxy"],
            "Cmd": ["serve"],
            "Env": ["PATH=/usr/bin"],
            "WorkingDir": "/",
            "ExposedPorts": {"6443/tcp": {}, "10280/tcp": {}},
            "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        "history": [{"created": created, "comment": "packaging/image.py"}],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob(encoded(config), "config.v1+json"),
        "layers": [blob(zipped(layer), "layer.v1.tar+gzip")],
        "annotations": labels,
    }
    index = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [
            blob(
                encoded(manifest),
                "manifest.v1+json",
                platform={"architecture": architecture, "os": "linux"},
                annotations={"org.opencontainers.image.ref.name": version},
            )
        ],
    }
    layout = {"oci-layout": (0o644, encoded({"imageLayoutVersion": "1.0.0"})), "index.json": (0o644, encoded(index))}
    return tar(layout | blobs, time)


def encoded(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
