"""Builds a dataset from replays: index, plan, play on Beam, join, and the manifest last.

In: where the replays are, a selection, and a destination. Out: a dataset there. Its bytes
depend on the replays, the selection, the settings, the engine and this release alone. They do
not depend on the runner, the number of workers, order, time, host, retries or interruptions.
"""

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.runners.runner import PipelineState

from starmill.engines.pool import SKIRMISH, PoolConfig
from starmill.pipelines import (
    episode_maker,
    index,
    local_runner,
    plan,
    stages,
    work_folder,
)
from starmill.pipelines.inputs import sources
from starmill.schema import (
    assembly,
    card,
    codec,
    errors,
    manifest,
    registry,
    shards,
    storage,
    table,
)
from starmill.schema.loader.dataset import checked_file
from starmill.schema.selection import Selection
from starmill.version import __version__

WORK = "_work"
# Files of a dataset beside its shards and its manifest.
_TABLES = (
    table.EPISODES,
    table.QUARANTINE,
    table.UNSELECTED,
    card.README,
    card.CROISSANT,
)
# Two games of 1 to 2 GB each, a gigabyte for converting, and some room to spare.
DATAFLOW_MIN_RAM = "8GB"
# What our own errors look like inside the errors that Beam makes of them.
_OURS = re.compile(r"(?:starmill\.schema\.errors\.)?ConfigError: ([^\n]+)")
_SYSTEM = re.compile(r"(?:OSError|PermissionError): (\[Errno \d+\][^\n]+)")
_BEAM_ERRORS = (RuntimeError, ValueError, OSError, errors.StarmillError)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """A dataset to build.

    Attributes:
        replays: files, folders, globs, packs and URLs; empty if there is an index.
        index: path or URL of an index made before, instead of replays.
        selection: which replays, and which sides of them, become episodes.
        output: path or URL of the dataset's folder.
        work: path or URL of the work folder; None: a folder in the output.
        name: of the dataset.
        version: of the dataset, like "1.0.0".
        pool: how games are started and reused.
        config: how replays are played.
        replays_per_shard: on average.
        extend: reference of a dataset whose episodes are taken over; None: all are played.
        password: of encrypted packs.
        keep_work: whether the work folder stays when the dataset is finished.
    """

    replays: tuple[str, ...] = ()
    index: str | None = None
    selection: Selection
    output: str
    work: str | None = None
    name: str
    version: str = "1.0.0"
    pool: PoolConfig
    config: episode_maker.MakerConfig = episode_maker.MakerConfig()
    replays_per_shard: int = 64
    extend: str | None = None
    password: str | None = dataclasses.field(default=None, repr=False)
    keep_work: bool = False

    def __post_init__(self) -> None:
        """Checks the name and version, and that replays come from one source."""
        problems = manifest.name_problems(self.name, self.version)
        if bool(self.replays) == (self.index is not None):
            problems.append("expected either --replays or --index")
        if self.work is not None and self.work.rstrip("/") == self.output.rstrip("/"):
            problems.append("--work: expected another folder than --output")
        if problems:
            raise errors.ConfigError("; ".join(problems))

    @property
    def work_folder(self) -> str:
        """Path or URL of the folder for unfinished work."""
        return self.work or storage.join(self.output, WORK)

    def job(self) -> dict[str, Any]:
        """Returns the facts that unfinished work must share to be continued."""
        return {
            "name": self.name,
            "version": self.version,
            "selection": self.selection.to_json(),
            "settings": self.config.settings.to_json(),
            "starmill": __version__,
            "codec": codec.VERSION,
            "libraries": assembly.libraries(),
            "replays_per_shard": self.replays_per_shard,
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of a build.

    Attributes:
        plan: what was to be done.
        manifest: of the finished dataset.
        quarantine: the selected sides that failed.
        unselected: the sides of selected replays that the selection leaves out.
        counters: of Beam; empty if the dataset was finished before.
    """

    plan: plan.BuildPlan
    manifest: manifest.Manifest
    quarantine: tuple[table.QuarantineRow, ...]
    unselected: tuple[table.UnselectedRow, ...]
    counters: Mapping[str, int]


Watch = Callable[[plan.BuildPlan], contextlib.AbstractContextManager[Any]]


def prepare(request: Request, options: Sequence[str]) -> plan.BuildPlan:
    """Indexes the replays, selects, and writes the work list; returns the plan.

    Raises ConfigError if the output or the work folder holds something else.
    """
    check_destination(request)
    work = request.work_folder
    with work_folder.reported(f"{work}: cannot be written"):
        work_folder.claim(work, request.job())
    index_url = request.index or storage.join(work, work_folder.INDEX)
    if request.index is None:
        inputs = sources.find(request.replays)
        if inputs.encrypted and request.password is None:
            raise errors.ConfigError(
                "some packs are encrypted: pass --pack-password and --accept-license"
            )
        settings = index.IndexSettings(
            selection=request.selection, password=request.password
        )
        index_options = PipelineOptions(_index_options(options, len(inputs.units)))
        with run_errors():
            index.run(inputs, index_url, settings, index_options)
    with work_folder.reported(f"{work}: cannot be written"):
        return plan.make(
            index_url,
            request.selection,
            storage.join(work, plan.NAME),
            replays_per_shard=request.replays_per_shard,
            reusable=_reusable(request) if request.extend else None,
        )


def _index_options(options: Sequence[str], units: int) -> list[str]:
    """Returns Beam's options without local worker processes where one unit needs none.

    They take seconds to start, and a unit is the work of a single process.
    """
    return [word for word in options if units > 1 or not word.startswith("--direct_")]


def run(
    request: Request,
    build_plan: plan.BuildPlan,
    options: Sequence[str],
    watch: Watch = lambda _: contextlib.nullcontext(),
) -> Outcome:
    """Plays the remaining replays, joins shards, and writes the tables and the manifest.

    Args:
        request: the build.
        build_plan: what `prepare` returned.
        options: of Beam.
        watch: a context manager that is entered while the job runs.
    """
    finished = _finished(request, build_plan)
    if finished is not None:
        return Outcome(
            plan=build_plan,
            manifest=finished,
            **assembly.read_left_out(request.output, finished)._asdict(),
            counters={},
        )
    with watch(build_plan):
        counters = _run_beam(request, build_plan, options)
    results = _shard_results(request.work_folder, build_plan)
    quarantine = [row for result in results for row in result.quarantine]
    placed = [row for result in results for row in result.placed]
    unselected = [row for result in results for row in result.unselected]
    _check_counts(build_plan, placed, quarantine, unselected)
    build = assembly.Build(
        name=request.name,
        version=request.version,
        engine=engine_name(build_plan),
        settings=request.config.settings,
        selection=request.selection.to_json(),
        replay_ids=build_plan.replay_ids,
    )
    with work_folder.reported(f"{request.output}: cannot be written"):
        _remove_temporaries(request.output)
        content = assembly.finish(
            request.output,
            build,
            [result.entry for result in results if result.entry is not None],
            placed,
            quarantine,
            unselected,
        )
        if not request.keep_work:
            work_folder.remove(request.work_folder)
    return Outcome(
        plan=build_plan,
        manifest=content,
        quarantine=tuple(quarantine),
        unselected=tuple(unselected),
        counters=counters,
    )


def _shard_results(
    work: str, build_plan: plan.BuildPlan
) -> list[work_folder.ShardResult]:
    results, missing = [], []
    for name in build_plan.replays_by_shard:
        result = work_folder.read_shard_result(work, name)
        if result is None:
            missing.append(name)
        else:
            results.append(result)
    if missing:
        raise errors.FormatError(
            f"{work}: shards were not finished: {missing[:3]}; run the command again"
        )
    return results


def engine_name(build_plan: plan.BuildPlan) -> str:
    """Returns the manifest's name of the engine; the embedded game has our release."""
    if build_plan.engine == SKIRMISH:
        return f"{SKIRMISH} {__version__}"
    return build_plan.engine


def _check_counts(
    build_plan: plan.BuildPlan,
    placed: Sequence[shards.Placed],
    quarantine: Sequence[table.QuarantineRow],
    unselected: Sequence[table.UnselectedRow],
) -> None:
    """Checks that every side of every selected replay is accounted for exactly once."""
    selected, rejected = build_plan.selected, sum(build_plan.rejected.values())
    if len(placed) + len(quarantine) + len(unselected) != 2 * selected:
        raise errors.SpecError(
            f"{selected} replays were selected, so expected {2 * selected} sides; "
            f"found {len(placed)} episodes, {len(quarantine)} failures and "
            f"{len(unselected)} that the selection leaves out"
        )
    if build_plan.read != selected + rejected:
        raise errors.SpecError(
            f"{build_plan.read} replays were read; found {selected} selected and "
            f"{rejected} rejected"
        )


def _run_beam(
    request: Request, build_plan: plan.BuildPlan, options: Sequence[str]
) -> dict[str, int]:
    """Runs the job and returns its counters."""
    beam_options = PipelineOptions(list(options))
    pipeline = beam.Pipeline(options=beam_options)
    on_dataflow = "Dataflow" in (beam_options.view_as(StandardOptions).runner or "")
    stages.build(
        pipeline,
        groups=build_plan.groups,
        plan_url=storage.join(request.work_folder, plan.NAME),
        work=request.work_folder,
        output=request.output,
        pool_config=request.pool,
        config=request.config,
        password=request.password,
        min_ram=DATAFLOW_MIN_RAM if on_dataflow else None,
    )
    with run_errors(), local_runner.watched():
        result = pipeline.run()
        state = result.wait_until_finish()
    if state not in (None, PipelineState.DONE):
        raise errors.EngineError(
            f"the Beam job ended as {state}; its log says why. Run the command again"
        )
    counters: dict[str, int] = {}
    for metric in result.metrics().query()["counters"]:
        if metric.key.metric.namespace == "generate":
            name = metric.key.metric.name
            counters[name] = counters.get(name, 0) + int(metric.committed or 0)
    return dict(sorted(counters.items()))


@contextlib.contextmanager
def run_errors() -> Iterator[None]:
    """Turns Beam's account of an error that a stage raised back into that error's message."""
    try:
        yield
    except local_runner.WorkerLost:
        raise
    except _BEAM_ERRORS as error:
        text = f"{type(error).__name__}: {error}"
        messages = _OURS.findall(text) or _SYSTEM.findall(text)
        if messages:
            raise errors.ConfigError(messages[-1].strip()) from error
        raise


def check_destination(request: Request) -> None:
    """Raises ConfigError if the output folder holds anything but this dataset."""
    with work_folder.reported(f"{request.output}: cannot be reached"):
        names = storage.names(request.output)
    foreign = [name for name in names if not _is_ours(name)]
    if manifest.NAME in names:
        content = manifest.read(request.output)
        if (content.name, content.version) != (request.name, request.version):
            raise errors.ConfigError(
                f"{request.output}: already holds {content.reference()}; "
                "choose another --output"
            )
    elif foreign:
        raise errors.ConfigError(
            f"{request.output}: expected an empty folder or an unfinished build, found "
            f"{foreign[0]!r}{' and others' if len(foreign) > 1 else ''}; "
            "choose another --output"
        )
    elif names and WORK not in names and request.work is None:
        raise errors.ConfigError(
            f"{request.output}: holds files of a build whose work folder is missing; "
            "choose another --output, or pass the --work of that build"
        )


def _is_ours(name: str) -> bool:
    """Returns whether a build writes a file of this name to the output folder."""
    target = storage.temporary_target(name) or name
    return shards.is_shard_name(target) or target in (WORK, manifest.NAME, *_TABLES)


def _remove_temporaries(output: str) -> None:
    """Deletes the temporary files that a killed run of this build left behind."""
    for name in storage.names(output):
        if storage.temporary_target(name) is not None and _is_ours(name):
            storage.delete(storage.join(output, name))


def _finished(request: Request, build_plan: plan.BuildPlan) -> manifest.Manifest | None:
    """Returns the manifest if this very build was finished before.

    Raises ConfigError if the output holds a dataset that differs from the request.
    """
    if not storage.exists(storage.join(request.output, manifest.NAME)):
        return None
    content = manifest.read(request.output)
    facts = {
        "the replays": (
            content.replay_set,
            manifest.replay_set_digest(set(build_plan.replay_ids)),
        ),
        "the selection": (content.selection, request.selection.to_json()),
        "the settings": (content.settings, request.config.settings),
        "the engine": (content.engine, engine_name(build_plan)),
        "starmill's release": (content.starmill, __version__),
    }
    differences = [key for key, (stored, asked) in facts.items() if stored != asked]
    if request.work is None and (differences or not request.keep_work):
        # The comparison needed an index and a plan. The dataset itself is unchanged.
        work_folder.remove(request.work_folder)
    if differences:
        raise errors.ConfigError(
            f"{request.output}: already holds {content.reference()}, which differs in "
            f"{', '.join(differences)}. A finished dataset never changes: choose another "
            "--output for the new one (with --extend to reuse the episodes of this one)"
        )
    return content


def _reusable(request: Request) -> dict[str, dict[int, plan.Reused]]:
    """Returns the episodes of the dataset that is extended, by replay and player."""
    folder, old = registry.open_manifest(request.extend or "")
    asked = (__version__, codec.VERSION, assembly.libraries(), request.config.settings)
    if (old.starmill, old.codec, dict(old.libraries), old.settings) != asked:
        raise errors.ConfigError(
            f"{request.extend}: was built with other settings or another release "
            f"(starmill {old.starmill}, codec {old.codec}, {dict(old.libraries)}). Its "
            "episodes would differ from this build's; build without --extend"
        )
    data = checked_file(folder, old, table.EPISODES)
    episodes = table.parse_table(data, table.EPISODE_SCHEMA, table.EPISODES)
    reusable: dict[str, dict[int, plan.Reused]] = {}
    for meta, row in zip(table.metas(episodes), episodes.to_pylist(), strict=True):
        reusable.setdefault(meta.replay_id, {})[meta.player_id] = plan.Reused(
            folder=folder,
            shard=row["shard"],
            offsets=tuple(row["offsets"]),
            meta=dataclasses.asdict(meta),
            sha256=row["sha256"],
        )
    return reusable


def count_parts(work: str) -> int:
    """Returns how many replays are done. It may be called while the job runs."""
    total = 0
    for folder in storage.names(work_folder.parts_folder(work)):
        names = storage.names(storage.join(work_folder.parts_folder(work), folder))
        total += sum(name.endswith(".part") for name in names)
    return total
