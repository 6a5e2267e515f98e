"""Replays to a dataset: index, plan, play and encode on Beam, join, and the manifest last.

In: where replays are, a selection, a destination. Out: a dataset there whose bytes depend on
the replays, the selection, the settings, the engine and this release alone; not on runner,
workers, order, time, host, retries or interruptions.
"""

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import fsspec
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
    selection,
    shards,
    storage,
    table,
)
from starmill.version import __version__

WORK = "_work"
# Two games of 1 to 2 GB, and a gigabyte for converting, with room to spare.
DATAFLOW_MIN_RAM = "8GB"
# How errors raised on purpose look inside what Beam makes of them.
_OURS = re.compile(r"(?:starmill\.schema\.errors\.)?ConfigError: ([^\n]+)")
_SYSTEMS = re.compile(r"(?:OSError|PermissionError): (\[Errno \d+\][^\n]+)")
_BEAM_ERRORS = (RuntimeError, ValueError, OSError, errors.StarmillError)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """A build.

    replays: files, folders, globs, packs, URLs; or index: an index made before.
    output: path or URL of the dataset's folder. work: of what is done so far.
    extend: reference of a dataset whose episodes are taken over where they are wanted.
    keep_work: whether the work folder stays when the dataset is finished.
    """

    replays: tuple[str, ...] = ()
    index: str | None = None
    selection: selection.Selection
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
        """Checks that there is exactly one source, and a name that will do."""
        problems = manifest.name_problems(self.name, self.version)
        if bool(self.replays) == (self.index is not None):
            problems.append("expected either --replays or --index")
        if problems:
            raise errors.ConfigError("; ".join(problems))

    @property
    def work_folder(self) -> str:
        """Where unfinished work is kept."""
        return self.work or storage.join(self.output, WORK)

    def job(self) -> dict[str, Any]:
        """Returns what makes unfinished work this build's and no other's."""
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
    """What a build has come to. counters: of Beam, empty where nothing had to be run."""

    plan: plan.BuildPlan
    manifest: manifest.Manifest
    quarantine: tuple[table.QuarantineRow, ...]
    counters: Mapping[str, int]

    @property
    def failures(self) -> tuple[table.QuarantineRow, ...]:
        """The sides that were wanted and could not be made."""
        unwanted = set(self.plan.unwanted_sides)
        return tuple(row for row in self.quarantine if row.reason not in unwanted)


Watch = Callable[[plan.BuildPlan], contextlib.AbstractContextManager[Any]]


def prepare(request: Request, options: Sequence[str]) -> plan.BuildPlan:
    """Indexes and selects; returns the plan, which is then in the work folder.

    Raises ConfigError if the destination holds something else.
    """
    check_destination(request)
    work = request.work_folder
    with work_folder.reported(f"{work}: cannot be written"):
        work_folder.claim(work, request.job())
    index_url = request.index or storage.join(work, "index.parquet")
    if request.index is None:
        found = sources.find(request.replays)
        if found.encrypted and request.password is None:
            raise errors.ConfigError(
                "some packs are encrypted: pass --pack-password and --accept-license"
            )
        settings = index.IndexSettings(
            selection=request.selection, password=request.password
        )
        chosen = PipelineOptions(_index_options(options, len(found.units)))
        with run_errors():
            index.run(found, index_url, settings, chosen)
    with work_folder.reported(f"{work}: cannot be written"):
        return plan.make(
            index_url,
            request.selection,
            storage.join(work, plan.NAME),
            replays_per_shard=request.replays_per_shard,
            reusable=_reusable(request) if request.extend else None,
        )


def _index_options(options: Sequence[str], units: int) -> list[str]:
    # Worker processes of this machine take seconds to start, and a unit is for one alone.
    return [word for word in options if units > 1 or not word.startswith("--direct_")]


def run(
    request: Request,
    made: plan.BuildPlan,
    options: Sequence[str],
    watch: Watch = lambda _: contextlib.nullcontext(),
) -> Outcome:
    """Plays what is not played yet, joins shards, writes tables and manifest."""
    work, output = request.work_folder, request.output
    finished = _finished(request, made)
    if finished is not None:
        return Outcome(
            plan=made,
            manifest=finished,
            quarantine=_stored_quarantine(output, finished),
            counters={},
        )
    with watch(made):
        counters = _run_beam(request, made, options)
    results = [
        work_folder.read_shard_result(work, name) for name in made.replays_by_shard
    ]
    missing = [
        name
        for name, result in zip(made.replays_by_shard, results, strict=True)
        if result is None
    ]
    if missing:
        raise errors.FormatError(
            f"{work}: shards were not finished: {missing[:3]}; run the command again"
        )
    finished_shards = [result for result in results if result is not None]
    quarantine = [row for result in finished_shards for row in result.quarantine]
    placed = [row for result in finished_shards for row in result.placed]
    _check_counts(made, placed, quarantine)
    build = assembly.Build(
        name=request.name,
        version=request.version,
        engine=engine_name(made),
        settings=request.config.settings,
        selection=request.selection.to_json(),
        replay_ids=made.replay_ids,
    )
    with work_folder.reported(f"{output}: cannot be written"):
        written = assembly.finish(
            output,
            build,
            [result.entry for result in finished_shards if result.entry is not None],
            placed,
            quarantine,
        )
        if not request.keep_work:
            remove(work)
    return Outcome(
        plan=made, manifest=written, quarantine=tuple(quarantine), counters=counters
    )


def engine_name(made: plan.BuildPlan) -> str:
    """Returns what the manifest calls the engine: the embedded game is of our release."""
    return f"skirmish {__version__}" if made.engine == SKIRMISH else made.engine


def _check_counts(
    made: plan.BuildPlan,
    placed: Sequence[shards.Placed],
    quarantine: Sequence[table.QuarantineRow],
) -> None:
    """Every side of every selected replay is an episode or has a row: exactly."""
    if len(placed) + len(quarantine) != 2 * made.selected:
        raise errors.SpecError(
            f"{made.selected} replays were selected, so expected {2 * made.selected} "
            f"sides; found {len(placed)} episodes and {len(quarantine)} left out"
        )
    if made.read != made.selected + sum(made.rejected.values()):
        raise errors.SpecError(
            f"{made.read} replays were read; found {made.selected} selected and "
            f"{sum(made.rejected.values())} rejected"
        )


def _run_beam(
    request: Request, made: plan.BuildPlan, options: Sequence[str]
) -> dict[str, int]:
    chosen = PipelineOptions(list(options))
    pipeline = beam.Pipeline(options=chosen)
    on_dataflow = "Dataflow" in (chosen.view_as(StandardOptions).runner or "")
    stages.build(
        pipeline,
        groups=made.groups,
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
    found = result.metrics().query()["counters"]
    counters: dict[str, int] = {}
    for metric in found:
        if metric.key.metric.namespace == "generate":
            name = metric.key.metric.name
            counters[name] = counters.get(name, 0) + int(metric.committed or 0)
    return dict(sorted(counters.items()))


@contextlib.contextmanager
def run_errors() -> Iterator[None]:
    """Turns what Beam makes of an error that a stage raised back into one clear line."""
    try:
        yield
    except local_runner.WorkerLost:
        raise
    except _BEAM_ERRORS as error:
        text = f"{type(error).__name__}: {error}"
        ours = _OURS.findall(text) or _SYSTEMS.findall(text)
        if ours:
            raise errors.ConfigError(ours[-1].strip()) from error
        raise


def check_destination(request: Request) -> None:
    """Raises ConfigError if the output folder holds anything but this build."""
    with work_folder.reported(f"{request.output}: cannot be reached"):
        names = storage.names(request.output)
    foreign = [name for name in names if not _is_ours(name)]
    if manifest.NAME in names:
        found = manifest.read(request.output)
        if (found.name, found.version) != (request.name, request.version):
            raise errors.ConfigError(
                f"{request.output}: already holds {found.reference()}; "
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
            f"{request.output}: holds files of a build without its work folder; "
            "choose another --output"
        )


def _is_ours(name: str) -> bool:
    try:
        shards.split_of_name(name.split(".tfrecord")[0] + ".tfrecord")
    except errors.FormatError:
        return name in (
            WORK,
            table.EPISODES,
            table.QUARANTINE,
            card.README,
            card.CROISSANT,
        )
    return True


def _finished(request: Request, made: plan.BuildPlan) -> manifest.Manifest | None:
    """Returns the manifest of the same build, finished before; ConfigError if another."""
    if not storage.exists(storage.join(request.output, manifest.NAME)):
        return None
    found = manifest.read(request.output)
    wanted = {
        "the replays": manifest.replay_set_digest(set(made.replay_ids)),
        "the selection": request.selection.to_json(),
        "the settings": request.config.settings,
        "the engine": engine_name(made),
        "starmill's release": __version__,
    }
    has = {
        "the replays": found.replay_set,
        "the selection": found.selection,
        "the settings": found.settings,
        "the engine": found.engine,
        "starmill's release": found.starmill,
    }
    differ = [key for key, value in wanted.items() if has[key] != value]
    if request.work is None and (differ or not request.keep_work):
        remove(request.work_folder)  # made to find out; the dataset stays as it was
    if differ:
        raise errors.ConfigError(
            f"{request.output}: already holds {found.reference()}, which differs in "
            f"{', '.join(differ)}. A finished dataset never changes: give the new one "
            "another --output (and --extend this one to reuse its episodes)"
        )
    return found


def _stored_quarantine(
    output: str, found: manifest.Manifest
) -> tuple[table.QuarantineRow, ...]:
    url = storage.join(output, table.QUARANTINE)
    content = table.parse_table(storage.read(url), table.QUARANTINE_SCHEMA, url)
    return tuple(table.QuarantineRow(**row) for row in content.to_pylist())


def _reusable(request: Request) -> dict[str, dict[int, plan.Reused]]:
    """Returns the episodes of the dataset that is extended, by replay and side."""
    folder, old = registry.open_manifest(request.extend or "")
    wanted = (__version__, codec.VERSION, assembly.libraries(), request.config.settings)
    if (old.starmill, old.codec, dict(old.libraries), old.settings) != wanted:
        raise errors.ConfigError(
            f"{request.extend}: was built with other settings or another release "
            f"(starmill {old.starmill}, codec {old.codec}, {dict(old.libraries)}); its "
            "episodes would not be those that this release makes. Build anew"
        )
    url = storage.join(folder, table.EPISODES)
    content = table.parse_table(storage.read(url), table.EPISODE_SCHEMA, url)
    found: dict[str, dict[int, plan.Reused]] = {}
    for meta, row in zip(table.metas(content), content.to_pylist(), strict=True):
        found.setdefault(meta.replay_id, {})[meta.player_id] = plan.Reused(
            folder=folder,
            shard=row["shard"],
            offsets=tuple(row["offsets"]),
            meta=dataclasses.asdict(meta),
        )
    return found


def count_parts(work: str) -> int:
    """Returns how many replays are done; safe to ask while the job runs."""
    total = 0
    for folder in storage.names(work_folder.parts_folder(work)):
        names = storage.names(storage.join(work_folder.parts_folder(work), folder))
        total += sum(name.endswith(".part") for name in names)
    return total


def remove(folder: str) -> None:
    """Deletes a work folder."""
    filesystem, path = fsspec.core.url_to_fs(folder)
    if filesystem.exists(path):
        filesystem.rm(path, recursive=True)
