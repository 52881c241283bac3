"""The Python client's own tests of its dynamic client, which its package has, against the API server of KUBECONFIG.

A test of LEFT_OUT must fail with its text. The exit code is 1 if a test has another result, or if a test did not run."""

import os
import sys
import tempfile
import types
import unittest

from kubernetes import config
from kubernetes.client import Configuration

MODULES = ["kubernetes.dynamic.test_client", "kubernetes.dynamic.test_discovery"]
TESTS = 14

OF_V1BETA1 = "ResourceNotFoundError: No matches found for {'api_version': 'apiextensions.k8s.io/v1beta1'"
# Tests that pass on no API server of this version of Kubernetes, each with a text of its failure.
LEFT_OUT = {
    # Kubernetes 1.22 removed apiextensions.k8s.io/v1beta1.
    "TestDynamicClient.test_cluster_custom_resources": OF_V1BETA1,
    "TestDynamicClient.test_namespaced_custom_resources": OF_V1BETA1,
    "TestDynamicClient.test_async_namespaced_custom_resources": OF_V1BETA1,
    # Python compares two Resources by identity, because the class has no __eq__, and each client makes its own ones.
    "TestDiscoverer.test_cache_decoder_resource_and_subresource": "self.assertTrue(deploy1 == deploy2)",
}


def configuration():
    loaded = Configuration()
    config.load_kube_config(client_configuration=loaded)
    return loaded


def provide_base():
    """Puts the module that the tests import from the client's repository into the place of the one that the package lacks."""
    package, base = types.ModuleType("kubernetes.e2e_test"), types.ModuleType("kubernetes.e2e_test.base")
    base.get_e2e_configuration = configuration
    package.base = base
    sys.modules |= {package.__name__: package, base.__name__: base}


def main():
    provide_base()
    # The discovery cache of the client is in a file there, by the host.
    tempfile.tempdir = tempfile.mkdtemp(dir=os.environ.get("TMPDIR"))
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromNames(MODULES).run(result)
    failures = {test.id().split(".", 3)[-1]: text for test, text in result.failures + result.errors}
    wrong = [f"{name}: {text}" for name, text in failures.items() if name not in LEFT_OUT or LEFT_OUT[name] not in text]
    wrong += [f"{name}: no failure, but it is left out" for name in LEFT_OUT if name not in failures]
    wrong += [f"{test.id()}: skipped, {reason}" for test, reason in result.skipped]
    if result.testsRun != TESTS:
        wrong.append(f"{result.testsRun} tests ran, not {TESTS}")
    print(f"{result.testsRun - len(failures)} of {result.testsRun} tests pass, {len(LEFT_OUT)} are left out")
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()
