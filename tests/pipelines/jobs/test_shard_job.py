"""Work on shards as a Beam job: ordered results, a small graph, and errors in one line."""

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from starmill.pipelines.jobs import shard_job
from starmill.schema import errors

LOCAL = ["--runner=FnApiRunner"]


def square(number: int) -> list[int]:
    return [number, number * number]


def refuse(number: int) -> int:
    raise errors.ConfigError(f"shard {number} is refused")


def test_results_are_in_order_and_no_file_stays(tmp_path):
    results = shard_job.run(square, 12, options=LOCAL, folder=str(tmp_path))
    assert results == [square(number) for number in range(12)]
    assert list(tmp_path.iterdir()) == []
    assert shard_job.run(square, 0, options=LOCAL, folder=str(tmp_path)) == []


def test_an_error_of_the_work_keeps_its_message(tmp_path):
    with pytest.raises(errors.ConfigError, match=r"^shard \d is refused"):
        shard_job.run(refuse, 2, options=LOCAL, folder=str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_the_graph_does_not_grow_with_the_dataset():
    sizes = []
    for count in (1, 22_000):
        pipeline = beam.Pipeline(options=PipelineOptions(LOCAL))
        shard_job.build(pipeline, square, count, "memory://x/results")
        sizes.append(pipeline.to_runner_api().ByteSize())
    assert abs(sizes[1] - sizes[0]) < 100
    assert sizes[0] < 100_000
