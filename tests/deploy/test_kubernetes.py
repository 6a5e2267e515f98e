"""The manifest for Kubernetes: the names of its fields, and that it fits the local cluster.

The names are compared with a list in this file, which is not the operator's schema. The list finds a
field that was misspelt or added by accident. It cannot show that the operator accepts the manifest,
and nothing here starts it. Pod templates are not checked, but for the containers' names.
"""

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]

# Names of fields of a FlinkDeployment, flink.apache.org/v1beta1. Written by hand and compared once,
# by eye, with a copy of the operator's reference page.
RESOURCE = {"cpu", "memory", "ephemeralStorage"}
MANAGER = {"resource", "replicas", "podTemplate"}
SPEC = {
    *(
        "image",
        "imagePullPolicy",
        "flinkVersion",
        "flinkConfiguration",
        "serviceAccount",
    ),
    *(
        "ingress",
        "podTemplate",
        "jobManager",
        "taskManager",
        "logConfiguration",
        "mode",
    ),
    *("job", "restartNonce"),
}


@pytest.fixture(scope="module")
def manifest() -> dict:
    return yaml.safe_load((ROOT / "deploy/kubernetes/flink.yaml").read_text("utf-8"))


def problems(manifest: dict) -> list[str]:
    """Returns fields that the lists above do not have, and settings that are not strings."""
    spec = manifest["spec"]
    unknown = [f"spec.{key}" for key in set(spec) - SPEC]
    for name in ("jobManager", "taskManager"):
        unknown += [f"{name}.{key}" for key in set(spec[name]) - MANAGER]
        unknown += [
            f"{name}.resource.{key}" for key in set(spec[name]["resource"]) - RESOURCE
        ]
    settings = spec["flinkConfiguration"].items()
    return unknown + [key for key, value in settings if not isinstance(value, str)]


def test_the_manifest_has_only_listed_fields(manifest):
    assert (manifest["apiVersion"], manifest["kind"]) == (
        "flink.apache.org/v1beta1",
        "FlinkDeployment",
    )
    assert problems(manifest) == []
    manifest["spec"]["taskManager"]["replica"] = 1
    assert problems(manifest) == ["taskManager.replica"]
    del manifest["spec"]["taskManager"]["replica"]


def test_each_task_manager_has_one_slot_and_a_pool_beside_it(manifest):
    spec = manifest["spec"]
    assert spec["flinkConfiguration"]["taskmanager.numberOfTaskSlots"] == "1"
    pod = spec["taskManager"]["podTemplate"]["spec"]
    names = [container["name"] for container in pod["containers"]]
    # The operator fills in the container of this name.
    assert names == ["flink-main-container", "workers"]
    assert pod["containers"][1]["args"] == ["--worker_pool"]


def test_kubernetes_and_the_local_cluster_have_the_same_settings(manifest):
    text = (ROOT / "deploy/flink/config.yaml").read_text("utf-8")
    local = {
        key: value
        for key, _, value in (line.partition(": ") for line in text.splitlines())
    }
    for key, value in manifest["spec"]["flinkConfiguration"].items():
        if key != "taskmanager.numberOfTaskSlots":
            assert local[key] == value, key


def test_one_image_is_described_once():
    assert [path.parent.name for path in (ROOT / "deploy").rglob("Dockerfile")] == [
        "image"
    ]
    text = (ROOT / "deploy/image/Dockerfile").read_text("utf-8")
    pages = {
        word.strip(".,();")
        for word in text.split()
        if word.startswith(("docs/", "(docs/"))
    }
    assert pages
    for page in pages:
        assert (ROOT / page.strip("()")).exists(), page
