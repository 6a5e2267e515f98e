"""Applies a function to every shard of a dataset, as a Beam job.

In: a function of a shard's number, and Beam's options. Out: its results, ordered by number. One
shard is one element, and results come back in one small file. Must not know what the function
does.
"""

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineState

from starmill.pipelines import local_runner
from starmill.pipelines.jobs import failures
from starmill.pipelines.jobs.processes import Work
from starmill.schema import errors, storage


class ApplyWork(beam.DoFn):
    """Number of a shard -> (number, JSON of the work's result)."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def process(self, number: int) -> Iterator[tuple[int, str]]:
        """Does the work of one shard."""
        yield number, json.dumps(self._work(number))


class WriteResults(beam.DoFn):
    """All (number, JSON) -> how many; writes them to one file, ordered by number."""

    def __init__(self, url: str) -> None:
        self._url = url

    def process(self, element: tuple[None, Iterable[tuple[int, str]]]) -> Iterator[int]:
        """Writes the file."""
        # A runner may do work twice; both results are the same.
        results = sorted(dict(element[1]).items())
        text = json.dumps([[number, json.loads(line)] for number, line in results])
        storage.write(self._url, text.encode())
        yield len(results)


def _numbers(count: int) -> Iterator[int]:
    yield from range(count)


def build(pipeline: beam.Pipeline, work: Work, count: int, url: str) -> None:
    """Adds the stages to a pipeline. The graph does not grow with the number of shards."""
    _ = (
        pipeline
        | "CountShards" >> beam.Create([count])  # int
        | "ListShards" >> beam.FlatMap(_numbers)  # int
        | "SpreadShards" >> beam.Reshuffle()
        | "DoShards" >> beam.ParDo(ApplyWork(work))  # (int, str)
        | "NameResults" >> beam.WithKeys(None)
        | "GroupResults" >> beam.GroupByKey()
        | "WriteResults" >> beam.ParDo(WriteResults(url))
    )


def run(work: Work, count: int, *, options: Sequence[str], folder: str) -> list[Any]:
    """Returns work(0) to work(count - 1), done by the workers of a Beam job.

    Args:
        work: is pickled into the job, so it should be small.
        count: how many shards there are.
        options: of Beam.
        folder: path or URL that all workers can write to; the results pass through it.
    """
    if not count:
        return []
    url = storage.join(folder, f"_results-{uuid.uuid4().hex}.json")
    pipeline = local_runner.new_pipeline(PipelineOptions(list(options)))
    build(pipeline, work, count, url)
    try:
        with failures.run_errors(), local_runner.imports_from_installation():
            state = pipeline.run().wait_until_finish()
        if state not in (None, PipelineState.DONE):
            raise errors.EngineError(
                f"the Beam job ended as {state}; its log says why. Run the command again"
            )
        results = json.loads(storage.read(url))
    finally:
        storage.delete(url)
    numbers = [number for number, _ in results]
    if numbers != list(range(count)):
        raise errors.FormatError(
            f"{url}: expected results of {count:,} shards, found {len(numbers):,}"
        )
    return [result for _, result in results]
