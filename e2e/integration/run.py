#!/usr/bin/env python3
"""Kubernetes' own integration tests through the proxy, and a table of what passes.

    run.py [--fast] [--baseline] [--run REGEX] [--binary FILE] [--jobs N] [PACKAGE ...]

The tests of k8s.io/kubernetes/test/integration start kube-apiserver in their own process. They are compiled from a copy of the module
in which the package admissionproxy, beside this file, puts the proxy in front of each of these API servers. baseline.txt lists the tests
that pass on kube-apiserver itself (--baseline writes it); without PACKAGE, all of its packages run. not-translatable.txt lists tests that
cannot pass through any proxy, or that the proxy is known not to pass, with the reason.

Exit code 1: a test of the baseline does not pass through the proxy and is not in not-translatable.txt, or a test of
not-translatable.txt does pass. Work files, and the output of every failed test, are in target/integration.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from fnmatch import fnmatchcase
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORK = ROOT / "target/integration"
COPY = WORK / "kubernetes"
GO = os.environ.get("GO", "go")
BASELINE = HERE / "baseline.txt"
NOT_TRANSLATABLE = HERE / "not-translatable.txt"

# The tests that --fast runs: a pattern of tests for each package, those that take longest first.
FAST = {
    "apiserver/admissionwebhook": "^(TestWebhookAdmissionWithWatchCache|TestWebhookReinvocationPolicyWithWatchCache|TestMatchConditions.*"
                                  "|TestMutatingWebhook.*)$",
    "apiserver/cel": "^(TestPolicyAdmission|TestMutatingAdmissionPolicy|Test_MutatingAdmissionPolicy_CustomResources"
                     "|Test_ValidateNamespace.*|Test_ValidatingAdmissionPolicy_Update.*)$",
    "certificates": "^(TestCSR.*|TestCertificateSubjectRestrictionPlugin)$",
    "evictions": "",
    "pods": "",
    "clustertrustbundles": "^TestCTB.*$",
    "dryrun": "",
    "quota": "",
    "serviceaccount": "^(TestServiceAccountAutoCreate|TestServiceAccountTokenAutoMount|TestServiceAccountTokenAuthentication)$",
}

# Go flags of the target e2e-assets, so that both share the build cache.
GO_ENVIRONMENT = {"CGO_ENABLED": "0", "GOGC": "off", "GOMEMLIMIT": "3GiB"}
GO_TEST = [GO, "test", "-c", "-trimpath", "-buildvcs=false", "-mod=mod", "-vet=off", "-gcflags=all=-dwarf=false", "-ldflags=-s -w"]
PACKAGE_TIMEOUT = "40m"
SUBTESTS_SHOWN = 10


# The copy of the module.


def make_module():
    """Writes a Go module into WORK whose k8s.io/kubernetes is a copy that calls the hook. Go cannot overlay files of its module cache."""
    assets = ROOT / "e2e/assets"
    module = json.loads(subprocess.check_output([GO, "mod", "download", "-json", "k8s.io/kubernetes"], cwd=assets))
    original, version = Path(module["Dir"]), module["Version"]
    made_from = WORK / "made-from"
    if not made_from.exists() or made_from.read_text() != version:
        for folder in (COPY, WORK / "tests", WORK / "src"):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(original, COPY, copy_function=shutil.copyfile)
        subprocess.check_call(["chmod", "-R", "u+w", COPY])
        link_test_data(version, original.parent)
        made_from.write_text(version)
    hook = COPY / "test/utils/admissionproxy"
    hook.mkdir(exist_ok=True)
    for file in (HERE / "admissionproxy").glob("*.go"):
        write_if_changed(hook / file.name, file.read_text())
    for path, changes in CALLS_OF_THE_HOOK.items():
        text = (original / path).read_text()
        for old, new in changes:
            if text.count(old) != 1:
                sys.exit(f"{path} of Kubernetes {version} has this {text.count(old)} times, not once; correct CALLS_OF_THE_HOOK:\n{old}")
            text = text.replace(old, new)
        write_if_changed(COPY / path, text)

    go_mod = re.sub(r"^tool \(\n.*?^\)\n", "", (assets / "go.mod").read_text(), flags=re.M | re.S)
    go_mod = re.sub(r"^module .*", "module kube-admission-proxy/e2e/integration", go_mod, flags=re.M)
    go_mod += f"\nreplace k8s.io/kubernetes {version} => ./{COPY.relative_to(WORK)}\n"
    if write_if_changed(WORK / "go.mod.start", go_mod):
        # Go adds what only the tests need, with the versions and checksums of Kubernetes' own go.mod and go.sum.
        (WORK / "go.mod").write_text(go_mod)
        sums = (assets / "go.sum").read_text() + (original / "go.sum").read_text()
        (WORK / "go.sum").write_text("".join(sorted(set(sums.splitlines(keepends=True)))))


def link_test_data(version, modules):
    """Code that is compiled with -trimpath finds its files below $TEST_SRCDIR/$TEST_WORKSPACE, by the path of its module."""
    workspace = WORK / "src/workspace/k8s.io"
    workspace.mkdir(parents=True)
    (workspace / f"kubernetes@{version}").symlink_to(COPY)
    (workspace / "apiextensions-apiserver@v0.0.0/pkg/cmd/server/testing/testdata").mkdir(parents=True)
    api = COPY / "staging/src/k8s.io/api"  # a test reads objects of old versions from it
    api.parent.mkdir(parents=True, exist_ok=True)
    api.symlink_to(modules / f"api@v0{version[2:]}")


def write_if_changed(path, text):
    if path.exists() and path.read_text() == text:
        return False
    path.write_text(text)
    return True


IMPORT = '\t"k8s.io/kubernetes/test/utils/admissionproxy"\n'


def after(line, *added):
    return line, line + "".join(added)


def before(line, *added):
    return line, "".join(added) + line


# For each file of Kubernetes that starts API servers: a line, and what replaces it.
CALLS_OF_THE_HOOK = {
    "cmd/kube-apiserver/app/testing/testserver.go": [
        after('\ttestutil "k8s.io/kubernetes/test/utils"\n', IMPORT),
        ("\ttearDown := func() {\n", "\tvar proxy *admissionproxy.Session\n\ttearDown := func() {\n\t\tproxy.Stop()\n"),
        before("\tcompletedOptions, err := s.Complete(tCtx)\n", "\tproxy = admissionproxy.Prepare(t, s, customFlags...)\n"),
        before("\tcompleted, err := config.Complete()\n",
               "\tproxy.RequestInformers(config.KubeAPIs.ControlPlane.Extra.VersionedInformers)\n"),
        before("\tresult.ClientConfig.QPS = 1000\n",
               "\tif err := proxy.Serve(result.ClientConfig, !instanceOptions.SkipHealthzCheck); err != nil {\n"
               "\t\treturn result, err\n\t}\n"),
    ],
    "test/integration/framework/test_server.go": [
        after('\t"k8s.io/kubernetes/test/utils"\n', IMPORT),
        ("\ttearDownFn := func() {\n", "\tvar proxy *admissionproxy.Session\n\ttearDownFn := func() {\n\t\tproxy.Stop()\n"),
        before("\tcompletedOptions, err := opts.Complete(ctx)\n", "\tproxy = admissionproxy.Prepare(t, opts)\n"),
        before("\tif setup.ModifyServerConfig != nil {\n",
               "\tadmissionBefore := kubeAPIServerConfig.ControlPlane.Generic.AdmissionControl\n"),
        before("\tkubeAPIServer, err := kubeAPIServerConfig.Complete().New(genericapiserver.NewEmptyDelegate())\n",
               "\tproxy.RequestInformers(versionedInformers)\n",
               "\tproxy.PrepareBare(kubeAPIServerConfig.ControlPlane.Generic, admissionBefore)\n"),
        before("\tkubeAPIServerClient, err := client.NewForConfig(kubeAPIServerClientConfig)\n",
               "\tif err := proxy.Serve(kubeAPIServerClientConfig, true); err != nil {\n\t\tt.Fatal(err)\n\t}\n"),
    ],
    "test/integration/etcd/server.go": [
        after('\t"k8s.io/kubernetes/test/integration/framework"\n', IMPORT),
        before("\tcompletedOptions, err := opts.Complete(tCtx)\n", "\tproxy := admissionproxy.Prepare(t, opts)\n"),
        before("\tcompleted, err := config.Complete()\n",
               "\tproxy.RequestInformers(config.KubeAPIs.ControlPlane.Extra.VersionedInformers)\n"),
        before("\t// create CRDs so we can make sure that custom resources do not get lost\n",
               "\tif err := proxy.Serve(kubeClientConfig, true); err != nil {\n\t\tt.Fatal(err)\n\t}\n",
               "\tkubeClient = clientset.NewForConfigOrDie(kubeClientConfig)\n"),
        after("\tcleanup := func() {\n", "\t\tproxy.Stop()\n"),
    ],
    # Goroutines of connections to a proxy that has ended live on for a while: the search for leaks would wait for them.
    "test/integration/framework/etcd.go": [
        before("\tif err := goleakFindRetry(goleakOpts...); err != nil {\n",
               '\tif os.Getenv("ADMISSION_PROXY_BINARY") != "" {\n\t\tos.Exit(result)\n\t}\n'),
    ],
}


# Building and running.


def flat(package):
    return package.replace("/", "_")


def build(package):
    """Builds the tests of the package; returns the binary, and the errors if it does not build."""
    binary = WORK / f"tests/{flat(package)}.test"
    built = subprocess.run([*GO_TEST, "-o", binary, f"k8s.io/kubernetes/test/integration/{package}"], cwd=WORK,
                           env={**os.environ, **GO_ENVIRONMENT}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return binary, built.stdout if built.returncode else ""


class Runner:
    """Runs test binaries, with the proxy or without, and keeps what they print."""

    def __init__(self, proxy, scratch):
        self.proxy = proxy
        self.environment = {**os.environ, "TMPDIR": str(scratch), "TEST_SRCDIR": str(WORK / "src"), "TEST_WORKSPACE": "workspace",
                            "PATH": f"{scratch}:{os.environ['PATH']}", "NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}
        if proxy:
            self.environment |= {"ADMISSION_PROXY_BINARY": str(proxy),
                                 "ADMISSION_PROXY_FEATURE_GATES": str(ROOT / "src/config/feature_gates.txt")}
        self.test2json = scratch / "test2json"
        subprocess.check_call([GO, "build", "-trimpath", "-o", self.test2json, "cmd/test2json"], cwd=WORK,
                              env={**os.environ, **GO_ENVIRONMENT})
        etcd = Path(os.environ.get("KUBEBUILDER_ASSETS") or ROOT / "target/e2e-assets") / "etcd"
        (scratch / "etcd").write_text(f'#!/bin/sh\nexec {etcd} --unsafe-no-fsync "$@"\n')  # no test's data outlives it
        (scratch / "etcd").chmod(0o755)

    def run(self, package, binary, pattern, lists):
        """Runs the package, and once more by themselves the tests that should have passed. Returns the results of all tests, the names of
        those that passed when repeated, and the folder of the output."""
        folder = WORK / f"results/{flat(package)}.{'proxy' if self.proxy else 'baseline'}"
        shutil.rmtree(folder, ignore_errors=True)
        results = self.attempt(package, binary, pattern, folder / "first")
        unexpected = [test for test in lists.should_pass(package, pattern, results)
                      if results.get(test) != "pass" and not lists.excuse(package, test, results)]
        repeated = []
        if unexpected:
            again = self.attempt(package, binary, f"^({'|'.join(unexpected)})$", folder / "second")
            repeated = [test for test in unexpected if again.get(test) == "pass"]
            others = {name: result for name, result in results.items() if name.split("/")[0] not in again}
            results = {**others, **again}
        return results, repeated, folder

    def attempt(self, package, binary, pattern, folder):
        folder.mkdir(parents=True)
        with open(folder / "events.json", "w") as events, open(folder / "stderr", "w") as stderr:
            subprocess.run([self.test2json, "-t", "-p", package, binary, "-test.v=test2json", f"-test.timeout={PACKAGE_TIMEOUT}",
                            *([f"-test.run={pattern}"] if pattern else [])],
                           cwd=COPY / "test/integration" / package, env={**self.environment, "ADMISSION_PROXY_LOGS": str(folder)},
                           stdout=events, stderr=stderr)
        return read_events(folder)


def read_events(folder):
    """Returns the result of each test: pass, fail, skip, or lost if the test did not end. Writes the output of a failed test to a file."""
    results, output = {}, collections.defaultdict(list)
    for line in open(folder / "events.json", errors="replace"):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        test, action = event.get("Test"), event["Action"]
        if not test:
            continue
        if action == "run":
            results[test] = "lost"
        elif action in ("pass", "fail", "skip"):
            results[test] = action
        elif action == "output":
            output[test.split("/")[0]].append(event["Output"])
    for test, text in output.items():
        if results.get(test) in ("fail", "lost"):
            (folder / f"{test}.txt").write_text("".join(text))
    return results


# Results.


def top_level(results):
    return [test for test in results if "/" not in test]


def subtests_passed(test, results):
    return sum(result == "pass" and name.startswith(test + "/") for name, result in results.items())


class Lists:
    """What baseline.txt and not-translatable.txt say."""

    def __init__(self, recording):
        self.recording = recording  # a new baseline: every test should pass
        self.baseline = collections.defaultdict(dict)  # package: {test: number of subtests}
        self.not_translatable = collections.defaultdict(list)  # package: [pattern]
        for package, test, subtests in self.words(BASELINE):
            self.baseline[package][test] = int(subtests)
        for package, pattern in self.words(NOT_TRANSLATABLE):
            self.not_translatable[package].append(pattern)

    @staticmethod
    def words(file):
        lines = file.read_text().splitlines() if file.exists() else []
        return [line.split() for line in lines if line and not line.startswith("#")]

    def record(self, package, results, partly):
        passed = {test: subtests_passed(test, results) for test in top_level(results) if results[test] == "pass"}
        self.baseline[package] = {**self.baseline[package], **passed} if partly else passed
        lines = [f"{package} {test} {subtests}\n"
                 for package in sorted(self.baseline) for test, subtests in sorted(self.baseline[package].items())]
        BASELINE.write_text("# The tests that pass on kube-apiserver: package, test, number of its subtests that pass.\n"
                            "# `make integration ARGS=--baseline` writes it.\n" + "".join(lines))

    def should_pass(self, package, pattern, results):
        if self.recording:
            return [test for test in top_level(results) if results[test] != "skip"]
        return [test for test in self.baseline[package] if re.search(pattern, test)]

    def excuse(self, package, test, results):
        """Whether the test failed, and only where not-translatable.txt names it."""
        leaves = failed_leaves(test, results)
        return not self.recording and bool(leaves) and all(
            any(fnmatchcase(leaf, form) for pattern in self.not_translatable[package] for form in (pattern, pattern + "/*"))
            for leaf in leaves)

    def stale(self, package, pattern, results):
        """Returns the lines of not-translatable.txt of which no test failed, although it ran or the whole package did."""
        stale = []
        for line in self.not_translatable[package]:
            matched = [result for name, result in results.items() if fnmatchcase(name, line)]
            if not {"fail", "lost"} & set(matched) and (matched or not pattern):
                stale.append(line)
        return stale


def failed_leaves(test, results):
    """Returns the test or its subtests, those that failed without a failed subtest of their own."""
    failed = [name for name, result in results.items()
              if result in ("fail", "lost") and (name == test or name.startswith(test + "/"))]
    parents = {name.rsplit("/", depth)[0] for name in failed for depth in range(1, name.count("/") + 1)}
    return [name for name in failed if name not in parents]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help="a folder of Kubernetes' test/integration, such as apiserver/cel")
    parser.add_argument("--fast", action="store_true", help="a subset for changes of the chain")
    parser.add_argument("--baseline", action="store_true", help="run without the proxy, and record the tests that pass")
    parser.add_argument("--jobs", metavar="N", type=int, default=2, help="packages that run at a time; most tests wait most of the time")
    parser.add_argument("--run", metavar="REGEX", default="", help="only these tests, as in go test")
    parser.add_argument("--binary", metavar="FILE", type=Path, default=ROOT / "target/debug/kube-admission-proxy", help="the proxy")
    options = parser.parse_args()
    lists = Lists(options.baseline)
    patterns = FAST if options.fast else {package: options.run for package in options.packages or sorted(lists.baseline)}
    if not options.baseline and not options.binary.exists():
        sys.exit(f"there is no {options.binary}: make integration builds it")
    unknown = [] if options.baseline else [package for package in patterns if package not in lists.baseline]
    if unknown:
        sys.exit(f"baseline.txt has no tests of {' '.join(unknown)}: make integration ARGS=\"--baseline {' '.join(unknown)}\" records them")

    make_module()
    building, printing = threading.Lock(), threading.Lock()
    with tempfile.TemporaryDirectory(prefix="integration-") as scratch, concurrent.futures.ThreadPoolExecutor(options.jobs) as jobs:
        runner = Runner(None if options.baseline else options.binary.resolve(), Path(scratch))  # a socket's path has 107 bytes at most
        print(f"{'package':34} {'baseline':>12} {'proxy':>12} {'build':>6} {'run':>6}", flush=True)

        def run(package):
            pattern = patterns[package]
            with building:  # Go uses all cores
                start = time.monotonic()
                binary, errors = build(package)
                built = time.monotonic()
            if errors:
                print(f"{package}: does not build\n{errors}", flush=True)
                return False
            results, repeated, folder = runner.run(package, binary, pattern, lists)
            seconds = built - start, time.monotonic() - built
            with printing:
                if options.baseline:
                    lists.record(package, results, bool(pattern))
                return report(package, pattern, lists, results, repeated, folder, seconds)

        passed = list(jobs.map(run, patterns))
    sys.exit(0 if all(passed) else 1)


def report(package, pattern, lists, results, repeated, folder, seconds):
    """Prints the package's part of the table; returns whether all is as the lists say."""
    baseline = {test: subtests for test, subtests in lists.baseline[package].items() if re.search(pattern, test)}
    passed = [test for test in baseline if results.get(test) == "pass"]
    excused = [test for test in baseline if lists.excuse(package, test, results)]
    failed = [test for test in lists.should_pass(package, pattern, results) if test not in passed and test not in excused]
    stale = [] if lists.recording else lists.stale(package, pattern, results)

    def figure(tests, subtests):
        return f"{len(tests)} ({subtests})"
    through = "" if lists.recording else figure(passed, sum(subtests_passed(test, results) for test in baseline))
    print(f"{package:34} {figure(baseline, sum(baseline.values())):>12} {through:>12} {seconds[0]:5.0f}s {seconds[1]:5.0f}s")
    lists_of_tests = {
        "passes when repeated": repeated, "not translatable": excused, "listed as not translatable, but does not fail": stale}
    for title, tests in lists_of_tests.items():
        if tests:
            print(f"    {title}: {', '.join(tests)}")
    for test in failed:
        said = sorted(folder.glob(f"*/{test}.txt"))
        print(f"    FAILS: {test}{'' if not said else f' ({said[-1].relative_to(ROOT)})'}")
        subtests = [leaf for leaf in failed_leaves(test, results) if leaf != test]
        for name in subtests[:SUBTESTS_SHOWN]:
            print(f"        {name}")
        if len(subtests) > SUBTESTS_SHOWN:
            print(f"        and {len(subtests) - SUBTESTS_SHOWN} more")
    sys.stdout.flush()
    return not failed and not stale


if __name__ == "__main__":
    main()
