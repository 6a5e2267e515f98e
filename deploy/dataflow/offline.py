"""Builds the exact Dataflow job request, without network or credentials.

    python deploy/dataflow/offline.py OUT_DIR [options of launch]

Three outside calls are replaced: looking up credentials, checking the bucket's soft-delete policy, and
uploading files, which are copied to OUT_DIR. With `--template_location` Beam writes the job
request instead of submitting it. Needs `pip install 'starmill[generate,gcp]'`.
"""

import json
import sys
from pathlib import Path
from typing import Any, BinaryIO
from unittest import mock

import apache_beam as beam
from apache_beam.internal.gcp import auth
from apache_beam.io.gcp import gcsio
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.dataflow.internal import apiclient

from starmill.engines import pool
from starmill.pipelines import episode_maker, generate, stages, work_folder

IMAGE = "us-docker.pkg.dev/example/starmill/worker:0.1.0"
BUCKET = "gs://example"


def options(*more: str) -> list[str]:
    """Returns the options of the launch command in this folder's README."""
    return [
        "--runner=DataflowRunner",
        "--project=example",
        "--region=us-central1",
        f"--temp_location={BUCKET}/tmp",
        f"--staging_location={BUCKET}/staging",
        f"--sdk_container_image={IMAGE}",
        "--sdk_location=container",
        "--machine_type=n2-standard-16",
        "--disk_size_gb=100",
        "--max_num_workers=256",
        "--number_of_worker_harness_threads=1",
        "--no_use_public_ips",
        *more,
    ]


def job_request(out_dir: Path, *more: str) -> dict[str, Any]:
    """Returns the generate job's request, as Dataflow would receive it."""
    out_dir.mkdir(parents=True, exist_ok=True)

    def keep(
        self: Any, folder: str, name: str, stream: BinaryIO, *rest: Any, **named: Any
    ) -> None:
        (out_dir / name).write_bytes(stream.read())

    arguments = options("--no_auth", f"--template_location={BUCKET}/job.json", *more)
    with (
        mock.patch.object(auth._Credentials, "_credentials_init", True),
        mock.patch.object(gcsio.GcsIO, "is_soft_delete_enabled", return_value=False),
        mock.patch.object(gcsio.GcsIO, "__init__", return_value=None),
        mock.patch.object(apiclient.DataflowApplicationClient, "stage_file", keep),
    ):
        pipeline = beam.Pipeline(options=PipelineOptions(arguments))
        stages.build(
            pipeline,
            files=28,
            target=work_folder.Target(
                work=f"{BUCKET}/data/_work",
                output=f"{BUCKET}/data",
                plan="0" * 16,
                token="",
            ),
            pool_config=pool.PoolConfig(root="/opt/StarCraftII"),
            config=episode_maker.MakerConfig(),
            min_ram=generate.DATAFLOW_MIN_RAM,
        )
        pipeline.run()
    request: dict[str, Any] = json.loads((out_dir / "job.json").read_text())
    return request


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    content = job_request(Path(sys.argv[1]), *sys.argv[2:])
    print(json.dumps(content["environment"]["workerPools"], indent=1)[:2000])
