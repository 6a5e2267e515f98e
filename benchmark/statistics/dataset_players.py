"""How the players of a dataset played: the yardstick for agents that imitate them.

In: a dataset. Out: one `PlayRecord` per episode. What the game refused of their commands is unknown,
because episodes hold only what players did.
"""

from starmill.benchmark.statistics.play_record import PlayRecord, Recorder
from starmill.schema import specs
from starmill.schema.episode import Arrays
from starmill.schema.loader.dataset import Dataset
from starmill.schema.loader.lazy_episode import Episode

# Steps that are decoded at a time: an observation of them all would not fit in memory.
_STEPS = 512


def records(data: Dataset, limit: int) -> list[PlayRecord]:
    """Returns the records of at most `limit` episodes, spread evenly over the dataset."""
    count = min(limit, len(data))
    numbers = [index * len(data) // count for index in range(count)]
    return [record(data[number], data) for number in numbers]


def record(episode: Episode, data: Dataset) -> PlayRecord:
    """Returns the record of one episode. Its last step, on which nobody acts, is left out."""
    recorder = Recorder(data.settings)
    arguments = tuple(specs.action_specs(data.settings))
    keys = ["game_loop", "player", "raw_units", *(f"action/{n}" for n in arguments)]
    steps = len(episode)
    for start in range(0, steps - 1, _STEPS):
        stop = min(start + _STEPS, steps - 1)
        arrays = episode.read(start, stop, keys=keys)
        for index in range(stop - start):
            recorder.note(*_step(arrays, index, arguments))
    return recorder.finish(episode.meta.game_loops)


def _step(
    arrays: Arrays, index: int, arguments: tuple[str, ...]
) -> tuple[Arrays, Arrays]:
    observation = {
        key: arrays[key][index] for key in ("game_loop", "player", "raw_units")
    }
    return observation, {name: arrays[f"action/{name}"][index] for name in arguments}
