"""The Dataflow job request, built offline by the script that the recipe names."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from apache_beam.portability.api import beam_runner_api_pb2

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def request_folder(tmp_path_factory) -> Path:
    if importlib.util.find_spec("apitools") is None:
        pytest.skip("needs the extra [gcp]: pip install 'starmill[gcp]'")
    folder = tmp_path_factory.mktemp("dataflow")
    # A process of its own: Google's libraries warn when they are imported.
    script = ROOT / "deploy/dataflow/offline.py"
    subprocess.run(
        [sys.executable, "-W", "ignore", str(script), str(folder)],
        check=True,
        cwd=ROOT,
        capture_output=True,
    )
    return folder


def test_workers_are_as_the_recipe_sizes_them(request_folder):
    request = json.loads((request_folder / "job.json").read_text())
    (pool,) = request["environment"]["workerPools"]
    assert pool["machineType"] == "n2-standard-16"
    assert pool["diskSizeGb"] == 100
    assert pool["numThreadsPerWorker"] == 1
    assert pool["autoscalingSettings"]["maxNumWorkers"] == 256
    assert pool["ipConfiguration"] == "WORKER_IP_PRIVATE"
    images = pool["sdkHarnessContainerImages"]
    assert {image["containerImage"] for image in images} == {
        "us-docker.pkg.dev/example/starmill/worker:0.1.0"
    }
    assert all(image["useSingleCorePerContainer"] for image in images)
    assert "use_runner_v2" in request["environment"]["experiments"]


def test_the_job_graph_has_its_stages_and_asks_for_memory(request_folder):
    pipeline = beam_runner_api_pb2.Pipeline.FromString(
        (request_folder / "pipeline.pb").read_bytes()
    )
    transforms = pipeline.components.transforms
    stages = {
        transform.unique_name: transform
        for transform in transforms.values()
        if "/" not in transform.unique_name
    }
    for name in (
        "ListFiles",
        "SpreadFiles",
        "ReadPlan",
        "SpreadPackets",
        "PlayPackets",
        "GroupByShard",
        "JoinShards",
    ):
        assert name in stages, sorted(stages)
    environments = pipeline.components.environments
    hints = {
        urn: payload
        for environment in environments.values()
        for urn, payload in environment.resource_hints.items()
    }
    assert hints == {"beam:resources:min_ram_bytes:v1": b"8000000000"}


def test_nothing_but_names_is_staged(request_folder):
    # No replay, no game and no dataset travels with the job.
    sizes = {path.name: path.stat().st_size for path in request_folder.iterdir()}
    assert set(sizes) >= {"job.json", "pipeline.pb"}
    assert max(sizes.values()) < 1 << 20


def test_the_readme_and_the_script_agree_on_the_options():
    readme = (ROOT / "deploy/dataflow/README.md").read_text()
    script = (ROOT / "deploy/dataflow/offline.py").read_text()
    for option in (
        "--machine_type=n2-standard-16",
        "--disk_size_gb=100",
        "--max_num_workers=256",
        "--number_of_worker_harness_threads=1",
        "--no_use_public_ips",
        "--sdk_location=container",
    ):
        assert option in readme and option in script
