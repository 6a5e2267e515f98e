"""Builds a dataset from replays: index, plan, play on Beam, join, and the manifest last.

In: where the replays are, a selection, and a destination. Out: a dataset there. Its bytes
depend on the replays, the selection, the settings, the engine and this release alone. They do
not depend on the runner, the number of workers, order, time, host, retries or interruptions.
"""

import collections
import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.runners.runner import PipelineState

from starmill.engines.pool import SKIRMISH, PoolConfig
from starmill.pipelines import (
    claims,
    episode_maker,
    extension,
    index,
    local_runner,
    output_folder,
    plan,
    stages,
    work_folder,
)
from starmill.pipelines.inputs import packs, sources
from starmill.pipelines.jobs import failures
from starmill.pipelines.joining import finishing
from starmill.schema import (
    assembly,
    codec,
    errors,
    manifest,
    storage,
    table,
)
from starmill.schema.selection import Selection
from starmill.version import __version__

# Two games of 1 to 2 GB each, a gigabyte for converting, and some room to spare.
DATAFLOW_MIN_RAM = "8GB"


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
        extend: reference of a dataset whose episodes are taken over; None: all are played. The
            dataset in the output itself gets an increment.
        password: where workers find that of encrypted packs.
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
    password: packs.Password = dataclasses.field(default=None, repr=False)
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
        return self.work or storage.join(self.output, output_folder.WORK)

    def growth(self) -> extension.Growth | None:
        """Returns the dataset that gets an increment; None if a whole one is built.

        Raises ConfigError if that dataset is of another kind.
        """
        growth = extension.find(self.extend, self.output, self.version)
        if growth is not None:
            extension.check_same(
                growth,
                extension.Facts(
                    name=self.name,
                    selection=self.selection.to_json(),
                    settings=self.config.settings,
                ),
            )
        return growth

    def job(self) -> dict[str, Any]:
        """Returns the facts that unfinished work must share to be continued."""
        growth = self.growth()
        return {
            **({"extends": growth.base.digest()} if growth else {}),
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
        episodes: that the build made; all of the dataset, or those of the increment.
        failed: reason -> selected sides that failed.
        examples: the first of them, with the reason as a sentence.
        unselected: sides of selected replays that the selection leaves out.
        counters: of Beam; empty if the dataset was finished before.
    """

    plan: plan.BuildPlan
    manifest: manifest.Manifest
    episodes: int
    failed: Mapping[str, int]
    examples: tuple[table.QuarantineRow, ...]
    unselected: int
    counters: Mapping[str, int]


Watch = Callable[[plan.BuildPlan], contextlib.AbstractContextManager[Any]]


@contextlib.contextmanager
def claimed(request: Request, *, take_over: bool = False) -> Iterator[str]:
    """Keeps all others from the output and the work folder while the block runs.

    Yields the token of the claim of the output, for `run`. Raises ConfigError if another
    build has one of the folders, or if they hold something else.

    Args:
        request: the build.
        take_over: whether to take over the claim of a process on another machine.
    """
    check_destination(request)
    with contextlib.ExitStack() as stack:
        with work_folder.reported(f"{request.work_folder}: cannot be written"):
            work_folder.check(request.work_folder, request.job())
            folders = (request.output, request.work_folder)
            ours = stack.enter_context(claims.held(folders, take_over=take_over))
        yield ours[0].token


def prepare(request: Request, options: Sequence[str]) -> plan.BuildPlan:
    """Indexes the replays, selects, and writes the work list; returns the plan.

    Raises ConfigError if the output or the work folder holds something else.
    """
    check_destination(request)
    work = request.work_folder
    with work_folder.reported(f"{work}: cannot be written"):
        work_folder.claim(work, request.job())
    index_url = request.index or _index(request, options)
    growth = request.growth()
    known, reusable = None, None
    if growth is not None:
        known = extension.known_ids(request.output, growth.base)
    elif request.extend:
        reusable = extension.reusable(request.extend, request.config.settings)
    try:
        with work_folder.reported(f"{work}: cannot be written"):
            return plan.make(
                index_url,
                request.selection,
                work,
                replays_per_shard=request.replays_per_shard,
                reusable=reusable,
                known=known,
                increment=growth.number if growth else 0,
            )
    except errors.ConfigError:
        if growth is not None and not work_folder.has_results(work):
            work_folder.remove(work)  # nothing is left in a finished dataset
        raise


def _index(request: Request, options: Sequence[str]) -> str:
    """Indexes the replays; returns the address of the index."""
    work = request.work_folder
    inputs = sources.find(request.replays)
    if inputs.encrypted and request.password is None:
        raise errors.ConfigError(
            "some packs are encrypted: pass --pack-password and --accept-license"
        )
    settings = index.IndexSettings(
        selection=request.selection, password=request.password
    )
    url = work_folder.index_url(work, index.digest(inputs, settings))
    index_options = PipelineOptions(_index_options(options, len(inputs.units)))
    with failures.run_errors(), local_runner.imports_from_installation():
        index.run(inputs, url, settings, index_options, work_folder.index_parts(work))
    return url


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
    token: str = "",
) -> Outcome:
    """Plays the remaining replays, joins shards, and writes the tables and the manifest.

    Args:
        request: the build.
        build_plan: what `prepare` returned.
        options: of Beam.
        watch: a context manager that is entered while the job runs.
        token: of the claim of the output; "" if there is none.
    """
    growth = request.growth()
    finished = _finished(request, build_plan, growth)
    if finished is not None:
        return _outcome_of(build_plan, finished, request.output)
    target = work_folder.Target(
        request.work_folder,
        request.output,
        build_plan.digest,
        token,
        growth.number if growth else 0,
    )
    with watch(build_plan):
        counters = _run_beam(request, build_plan, target, options)
    summary = finishing.read_summary(target)
    check_summary(build_plan, summary)
    with work_folder.reported(f"{request.output}: cannot be written"):
        if token:
            claims.check(request.output, token)
        content = _complete(request, build_plan, growth, summary)
        if not request.keep_work:
            work_folder.remove(request.work_folder)
    return Outcome(
        plan=build_plan,
        manifest=content,
        episodes=summary.tables.episodes,
        failed=summary.failed,
        examples=summary.examples,
        unselected=summary.unselected,
        counters=counters,
    )


def _complete(
    request: Request,
    build_plan: plan.BuildPlan,
    growth: extension.Growth | None,
    summary: finishing.Summary,
) -> manifest.Manifest:
    """Writes what comes after shards and tables, the manifest last; returns it."""
    if growth is not None:
        entries = (*growth.base.shards, *summary.entries)
        output_folder.check_and_clean(request.output, entries)
        return assembly.grow(
            request.output,
            growth.base,
            request.version,
            build_plan.replay_set,
            summary.entries,
            summary.tables,
        )
    build = assembly.Build(
        name=request.name,
        version=request.version,
        engine=engine_name(build_plan),
        settings=request.config.settings,
        selection=request.selection.to_json(),
        replay_set=build_plan.replay_set,
    )
    output_folder.check_and_clean(request.output, summary.entries)
    return assembly.complete(request.output, build, summary.entries, summary.tables)


def engine_name(build_plan: plan.BuildPlan) -> str:
    """Returns the manifest's name of the engine; the embedded game has our release."""
    if build_plan.engine == SKIRMISH:
        return f"{SKIRMISH} {__version__}"
    return build_plan.engine


def _outcome_of(
    build_plan: plan.BuildPlan, content: manifest.Manifest, folder: str
) -> Outcome:
    """Returns the outcome of a build that was finished before."""
    left_out = assembly.read_left_out(folder, content, last=True)
    return Outcome(
        plan=build_plan,
        manifest=content,
        episodes=content.counts("episodes")[-1],
        failed=collections.Counter(row.reason for row in left_out.quarantine),
        examples=left_out.quarantine[: finishing.EXAMPLES],
        unselected=len(left_out.unselected),
        counters={},
    )


def name_in_place(reference: str | None, output: str) -> str | None:
    """Returns the name of the dataset that a build extends in place; None if it does not."""
    if not extension.is_in_place(reference, output):
        return None
    return manifest.read(output).name


def check_summary(build_plan: plan.BuildPlan, summary: finishing.Summary) -> None:
    """Checks that all shards are finished, and that no side of a selected replay was lost.

    Each shard's sides were compared one by one when it was joined.
    """
    missing = sorted(set(build_plan.replays_by_shard) - set(summary.names))
    if missing:
        raise errors.FormatError(
            f"shards were not finished: {missing[:3]}; run the command again"
        )
    tables = summary.tables
    facts = {
        "shards": (len(summary.names), len(build_plan.replays_by_shard)),
        "episodes and failures": (
            tables.episodes + tables.quarantined,
            build_plan.sides,
        ),
        "sides that the selection leaves out": (
            summary.unselected,
            sum(build_plan.unselected.values()),
        ),
    }
    problems = [
        f"{name}: expected {expected:,}, found {actual:,}"
        for name, (actual, expected) in facts.items()
        if actual != expected
    ]
    if problems:
        raise errors.SpecError("; ".join(problems))


def _run_beam(
    request: Request,
    build_plan: plan.BuildPlan,
    target: work_folder.Target,
    options: Sequence[str],
) -> dict[str, int]:
    """Runs the job and returns its counters."""
    beam_options = PipelineOptions(list(options))
    pipeline = local_runner.new_pipeline(beam_options)
    on_dataflow = "Dataflow" in (beam_options.view_as(StandardOptions).runner or "")
    stages.build(
        pipeline,
        files=build_plan.files,
        target=target,
        pool_config=request.pool,
        config=request.config,
        password=request.password,
        min_ram=DATAFLOW_MIN_RAM if on_dataflow else None,
    )
    with failures.run_errors(), local_runner.imports_from_installation():
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


def check_destination(request: Request) -> None:
    """Raises ConfigError if the output folder holds anything but this dataset."""
    if request.growth() is not None:
        return
    output_folder.check(
        request.output,
        request.name,
        request.version,
        has_work=request.work is not None,
    )


def _finished_increment(
    request: Request, build_plan: plan.BuildPlan, growth: extension.Growth
) -> manifest.Manifest | None:
    """Returns the manifest if the dataset has this very increment."""
    content = growth.present
    if content.engine != engine_name(build_plan):
        raise errors.ConfigError(
            f"{request.output}: expected replays of {content.engine}, found those of "
            f"{engine_name(build_plan)}"
        )
    if not growth.is_finished:
        return None
    is_same = content.increments[-1].replay_set == build_plan.replay_set
    if request.work is None and not (is_same and request.keep_work):
        work_folder.remove(request.work_folder)
    if not is_same:
        raise errors.ConfigError(
            f"{request.output}: already holds {content.reference()}, whose last increment "
            "has other replays; pass a later --version for those that are new"
        )
    # It may have been killed before.
    assembly.complete_cards(request.output, content)
    return content


def _finished(
    request: Request, build_plan: plan.BuildPlan, growth: extension.Growth | None
) -> manifest.Manifest | None:
    """Returns the manifest if this very build was finished before.

    Raises ConfigError if the output holds a dataset that differs from the request.
    """
    if growth is not None:
        return _finished_increment(request, build_plan, growth)
    if not storage.exists(storage.join(request.output, manifest.NAME)):
        return None
    content = manifest.read(request.output)
    facts = {
        "the replays": (
            content.replay_set,
            build_plan.replay_set,
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


def count_parts(work: str) -> int:
    """Returns how many replays are done. It may be called while the job runs."""
    total = 0
    for folder in storage.names(work_folder.parts_folder(work)):
        names = storage.names(storage.join(work_folder.parts_folder(work), folder))
        total += sum(name.endswith(".part") for name in names)
    return total
