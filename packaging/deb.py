"""The Debian package, made by dpkg-deb."""
import hashlib
import os
import subprocess
import tempfile
from email.utils import formatdate
from pathlib import Path

from archives import zipped

HERE = Path(__file__).parent


def package(files, version, architecture, time, target):
    """Writes the package with `files` (path -> (mode, content), as in `archives.tar`) to `target`."""
    changelog = (
        f"kube-admission-proxy ({version}) stable; urgency=medium\n\n  * See /usr/share/doc/kube-admission-proxy/CHANGELOG.md.gz.\n\n"
        f" -- {maintainer()}  {formatdate(time)}\n"
    )
    files = {
        **files,
        "etc/default/kube-admission-proxy": (0o644, (HERE / "kube-admission-proxy.default").read_bytes()),
        "lib/systemd/system/kube-admission-proxy.service": (0o644, (HERE / "kube-admission-proxy.service").read_bytes()),
        "usr/share/doc/kube-admission-proxy/changelog.gz": (0o644, zipped(changelog.encode())),
        "usr/share/doc/kube-admission-proxy/copyright": (0o644, (HERE / "debian/copyright").read_bytes()),
        "usr/share/lintian/overrides/kube-admission-proxy": (0o644, (HERE / "debian/lintian-overrides").read_bytes()),
    }
    size = sum(len(content) for _, content in files.values() if isinstance(content, bytes))
    control = (HERE / "debian/control").read_text().format(
        version=version, architecture=architecture, size=-(-size // 1024), maintainer=maintainer()
    )
    sums = (
        f"{hashlib.md5(content).hexdigest()}  {path}\n"
        for path, (_, content) in sorted(files.items())
        if isinstance(content, bytes)
    )
    files["DEBIAN/control"] = (0o644, control.encode())
    files["DEBIAN/conffiles"] = (0o644, b"/etc/default/kube-admission-proxy\n")
    files["DEBIAN/md5sums"] = (0o644, "".join(sums).encode())
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        for path, (mode, content) in files.items():
            file = Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, str):
                file.symlink_to(content)
            else:
                file.write_bytes(content)
                file.chmod(mode)
        # The modes of the folders must not follow the umask.
        for parent, folders, _ in os.walk(folder):
            for name in folders:
                os.chmod(os.path.join(parent, name), 0o755)
        # dpkg-deb takes the times of the members from this variable.
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(time)}
        command = ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", folder, str(target)]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)


def maintainer():
    name = os.environ.get("DEBFULLNAME", "kube-admission-proxy")
    return f"{name} <{os.environ.get('DEBEMAIL', 'maintainers@kube-admission-proxy.dev')}>"
