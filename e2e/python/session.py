"""Create, update, patch, apply, list, watch and delete with the Python client, in the namespace that is named."""

import os
import sys

from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException

WATCH_SECONDS = int(30 * float(os.environ.get("E2E_PATIENCE", 1)))

namespace = sys.argv[1]
config.load_kube_config()
core = client.CoreV1Api()


def config_map(value):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name="one"), data={"k": value})


created = core.create_namespaced_config_map(namespace, config_map("1"))
version = created.metadata.resource_version

replaced = core.replace_namespaced_config_map("one", namespace, config_map("2"))
assert replaced.data == {"k": "2"}, replaced

patched = core.patch_namespaced_config_map("one", namespace, {"data": {"k": "3"}})
assert patched.data == {"k": "3"}, patched

names = [item.metadata.name for item in core.list_namespaced_config_map(namespace, field_selector="metadata.name=one").items]
assert names == ["one"], names

# A list is a JSON patch; what else is patched in which way, the client does not say but by the content type.
patched = core.patch_namespaced_config_map("one", namespace, [{"op": "replace", "path": "/data/k", "value": "4"}])
assert patched.data == {"k": "4"}, patched
for content_type, value in (("application/merge-patch+json", "5"), ("application/strategic-merge-patch+json", "6")):
    patched = core.patch_namespaced_config_map("one", namespace, {"data": {"k": value}}, _content_type=content_type)
    assert patched.data == {"k": value}, patched
configuration = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"k": "7"}}
apply = {"_content_type": "application/apply-patch+yaml", "field_manager": "me"}
try:
    core.patch_namespaced_config_map("one", namespace, configuration, **apply)
except ApiException as error:
    assert error.status == 409, error
else:
    raise AssertionError("took what another manager owns")
patched = core.patch_namespaced_config_map("one", namespace, configuration, force=True, **apply)
assert patched.data == {"k": "7"}, patched

core.delete_namespaced_config_map("one", namespace)

seen = []
for event in watch.Watch().stream(core.list_namespaced_config_map, namespace, resource_version=version, timeout_seconds=WATCH_SECONDS):
    seen.append(event["type"])
    if seen[-1] == "DELETED":
        break
assert seen[0] == "MODIFIED" and seen[-1] == "DELETED" and len(seen) == 7, seen

try:
    core.read_namespaced_config_map("one", namespace)
except ApiException as error:
    assert error.status == 404 and error.reason == "Not Found", error
else:
    raise AssertionError("still there")

try:
    core.create_namespaced_config_map("nowhere", config_map("1"))
except ApiException as error:
    assert error.status == 404 and 'namespaces \\"nowhere\\" not found' in error.body, error.body
else:
    raise AssertionError("created in a namespace that is not there")
