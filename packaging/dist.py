#!/usr/bin/env python3
"""Makes the files of a release from a binary, and checks them.

    dist.py image BINARY TARGET.tar
    dist.py all BINARY FOLDER

The same binary and the same commit give the same bytes. `image` writes an OCI image layout. `all` also writes the tar archive, the Debian
package, the chart, the software bill of materials, the manifest for krew, and the checksums. The environment may have:
SOURCE_DATE_EPOCH  the time of all entries; without it the time of the last commit
CA_BUNDLE          the certificate authorities of the image; without it those of this machine
RELEASES           the URL of the folder that holds the folder of each release
SBOM, NOTICES      the files of the bill of materials and of the licences of libraries; HELM: the program that packs the chart
"""
import argparse
import gzip
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path

import deb
from archives import tar, zipped
from image import image

HERE = Path(__file__).parent
ROOT = HERE.parent
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
CA_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
RELEASES = "https://github.com/kube-admission-proxy/kube-admission-proxy/releases/download"
# The bound on the size of the binary, in bytes.
LARGEST_BINARY = 40_000_000
SHELLS = {
    "bash": "usr/share/bash-completion/completions/{}",
    "zsh": "usr/share/zsh/vendor-completions/_{}",
    "fish": "usr/share/fish/vendor_completions.d/{}.fish",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--any-size", action="store_true", help="accept a binary of any size, for tests with an unoptimised one")
    parser.add_argument("what", choices=["image", "all"])
    parser.add_argument("binary", type=Path)
    parser.add_argument("target", type=Path)
    arguments = parser.parse_args()
    release = Release(arguments.binary)
    if len(release.binary) > LARGEST_BINARY and not arguments.any_size:
        sys.exit(f"{arguments.binary} has {len(release.binary)} bytes; {LARGEST_BINARY} are the most")
    if arguments.what == "image":
        arguments.target.write_bytes(release.image())
    else:
        arguments.target.mkdir(parents=True, exist_ok=True)
        release.write(arguments.target)


class Release:
    """The contents that the packages share."""

    def __init__(self, binary):
        self.path, self.binary = binary.resolve(), binary.read_bytes()
        self.architecture = ARCHITECTURES[platform.machine()]
        self.time = int(os.environ.get("SOURCE_DATE_EPOCH") or output("git", "-C", ROOT, "log", "-1", "--format=%ct"))
        self.version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
        if not (found := output(self.path, "--version").strip()).startswith(f"kube-admission-proxy {self.version} ("):
            sys.exit(f"{binary} is {found}, not version {self.version} of Cargo.toml")
        self.licences = {"LICENSE": (ROOT / "LICENSE").read_bytes()}
        if notices := os.environ.get("NOTICES"):
            self.licences["THIRD-PARTY.txt"] = Path(notices).read_bytes()

    def image(self):
        authorities = Path(os.environ.get("CA_BUNDLE", CA_BUNDLE)).read_bytes()
        return image(self.binary, authorities, self.licences, self.version, self.architecture, self.time)

    def write(self, folder):
        name = f"kube-admission-proxy-{self.version}-linux-{self.architecture}"
        made = {f"{name}.oci.tar": self.image(), f"{name}.tar.gz": zipped(tar(self.archive(name), self.time))}
        for file, data in made.items():
            (folder / file).write_bytes(data)
        package = folder / f"kube-admission-proxy_{self.version}_{self.architecture}.deb"
        deb.package(self.system(), self.version, self.architecture, self.time, package)
        made[package.name] = package.read_bytes()
        made["admission.yaml"] = self.krew(f"{name}.tar.gz", made[f"{name}.tar.gz"])
        if sbom := os.environ.get("SBOM"):
            made[f"{name}.cdx.json"] = self.bill(Path(sbom).read_text())
        if helm := os.environ.get("HELM"):
            chart = f"kube-admission-proxy-chart-{self.version}.tgz"
            made[chart] = self.chart(helm)
        sums = (f"{hashlib.sha256(data).hexdigest()}  {file}\n" for file, data in sorted(made.items()))
        made["SHA256SUMS"] = "".join(sums).encode()
        for file, data in made.items():
            (folder / file).write_bytes(data)
        for file in sorted(made):
            print(f"{folder / file}: {len(made[file])} bytes")

    @staticmethod
    def bill(text):
        """Returns the bill of materials with the libraries in the binary: cargo-cyclonedx also lists those of features that are off."""
        # The identifiers of the workspace's own packages have the folder of this checkout.
        described = json.loads(text.replace(f"file://{ROOT.resolve()}", "file:///source"))
        host = re.search("^host: (.*)$", output("rustc", "-vV"), re.MULTILINE)[1]
        tree = output("cargo", "tree", "--locked", "--offline", "--edges=normal", f"--target={host}", "--prefix=none", "--format={p}",
                      f"--manifest-path={ROOT / 'Cargo.toml'}")
        built = {tuple(line.split()[:2]) for line in tree.splitlines()}
        left_out = {one["bom-ref"] for one in described["components"] if (one["name"], f"v{one['version']}") not in built}
        described["components"] = [one for one in described["components"] if one["bom-ref"] not in left_out]
        described["dependencies"] = [
            {key: [ref for ref in value if ref not in left_out] if key == "dependsOn" else value for key, value in one.items()}
            for one in described["dependencies"] if one["ref"] not in left_out]
        return (json.dumps(described, indent=2) + "\n").encode()

    def manual(self):
        """Returns the manual pages: name -> text."""
        with tempfile.TemporaryDirectory() as folder:
            date = datetime.fromtimestamp(self.time, timezone.utc).strftime("%Y-%m-%d")
            output(self.path, "man", folder, f"--date={date}")
            return {page.name: page.read_bytes() for page in sorted(Path(folder).iterdir())}

    def system(self):
        """Returns the files of an installation below /."""
        documents = {"CHANGELOG.md": (ROOT / "CHANGELOG.md").read_bytes(), **self.licences}
        # Debian has the licence itself in its common licences.
        del documents["LICENSE"]
        files = {
            "usr/bin/kube-admission-proxy": (0o755, self.binary),
            "usr/bin/kubectl-admission": (0o777, "kube-admission-proxy"),
        }
        for page, text in self.manual().items():
            files[f"usr/share/man/man1/{page}.gz"] = (0o644, zipped(text))
        files["usr/share/man/man1/kubectl-admission.1.gz"] = (0o777, "kube-admission-proxy.1.gz")
        for shell, path in SHELLS.items():
            files[path.format("kube-admission-proxy")] = (0o644, self.completion(shell))
        for document, text in documents.items():
            files[f"usr/share/doc/kube-admission-proxy/{document}.gz"] = (0o644, zipped(text))
        return files

    def archive(self, name):
        """Returns the files of the tar archive, all below one folder."""
        files = {
            "kube-admission-proxy": (0o755, self.binary),
            "README.md": (0o644, (ROOT / "README.md").read_bytes()),
            "CHANGELOG.md": (0o644, (ROOT / "CHANGELOG.md").read_bytes()),
            "kube-admission-proxy.service": (0o644, (HERE / "kube-admission-proxy.service").read_bytes()),
            **{path: (0o644, text) for path, text in self.licences.items()},
            **{f"man/{page}": (0o644, text) for page, text in self.manual().items()},
            **{f"completions/{shell}": (0o644, self.completion(shell)) for shell in SHELLS},
        }
        return {f"{name}/{path}": file for path, file in files.items()}

    def completion(self, shell):
        return output(self.path, "completion", shell).encode()

    def krew(self, archive, data):
        releases = os.environ.get("RELEASES") or RELEASES
        return (HERE / "krew.yaml").read_text().format(
            version=self.version,
            homepage=releases.removesuffix("/releases/download"),
            architecture=self.architecture,
            url=f"{releases}/v{self.version}/{archive}",
            sha256=hashlib.sha256(data).hexdigest(),
        ).encode()

    def chart(self, helm):
        """Returns the chart's package, packed anew because Helm's own has the time of the call."""
        with tempfile.TemporaryDirectory() as folder:
            output(helm, "package", ROOT / "charts/kube-admission-proxy", "--destination", folder)
            (package,) = Path(folder).iterdir()
            return zipped(tar(members(gzip.decompress(package.read_bytes())), self.time))


def members(archive):
    import io
    import tarfile

    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return {file.name: (file.mode, opened.extractfile(file).read()) for file in opened if file.isfile()}


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()
