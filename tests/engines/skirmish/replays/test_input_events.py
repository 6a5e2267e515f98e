"""Inputs become events that s2protocol decodes, and decoded events become the same inputs."""

import random

import pytest

from starmill.engines.skirmish import versions
from starmill.engines.skirmish.replays import input_events, members, streams
from starmill.engines.skirmish.simulation import game
from starmill.schema import errors


def _decoded(events):
    """Encodes events, and returns them as s2protocol decodes them."""
    return list(streams.PROTOCOL.decode_replay_game_events(streams.game_events(events)))


def _read(events):
    reader = input_events.EventReader()
    items = [(event["_gameloop"], reader.read(event)) for event in events]
    return [(loop, item) for loop, item in items if item is not None]


def _unit(tag):
    return tag % 7 + 40, 1 + tag % 2, float(tag % 90), 10.0


def _random_input(rng, player, selections):
    units = [rng.randrange(1, 60) << 18 | 1 for _ in range(rng.randrange(1, 6))]
    tags = tuple(dict.fromkeys(units))
    if rng.random() < 0.5:
        tags = selections.current(player) or tags
    point = (round(rng.uniform(0, 200), 3), round(rng.uniform(0, 200), 3))
    kind = rng.randrange(7)
    queued = rng.random() < 0.3
    ability = rng.choice((1, 16, 23, 3674, 4500))
    match kind:
        case 0:
            return game.Select(player, tags if rng.random() < 0.9 else ())
        case 1:
            return game.ControlGroup(player, rng.randrange(10), rng.randrange(1, 6))
        case 2:
            return game.CameraMove(player, *point)
        case 3:
            return game.Autocast(player, ability, tags)
        case 4:
            return game.UnitCommand(player, ability, tags, queued=queued)
        case 5:
            return game.UnitCommand(
                player, ability, tags, target_point=point, queued=queued
            )
        case _:
            target = rng.randrange(1, 60) << 18 | 1
            return game.UnitCommand(player, ability, tags, target, queued=queued)


def _random_game(seed):
    """Returns admitted (loop, input) pairs and their events."""
    rng = random.Random(seed)
    selections = input_events.Selections()
    writer = input_events.EventWriter(_unit)
    inputs, events, loop = [], [], 0
    for _ in range(400):
        loop += rng.choice((0, 0, 1, 5, 70, 20_000))
        player = rng.choice((1, 2))
        item = _random_input(rng, player, selections)
        # People repeat commands, which the file holds in another form.
        for admitted in selections.admit([item] * rng.choice((1, 1, 2))):
            inputs.append((loop, admitted))
            events += writer.write(loop, admitted)
    return inputs, events


@pytest.mark.parametrize("seed", range(5))
def test_all_inputs_come_back_from_the_file(seed):
    inputs, events = _random_game(seed)
    assert {type(item) for _, item in inputs} == {
        game.UnitCommand,
        game.Autocast,
        game.CameraMove,
        game.Select,
        game.ControlGroup,
    }
    assert _read(_decoded(events)) == inputs


class Follower:
    """Follows one player's selection by what the events say, command by command."""

    def __init__(self):
        self.selected, self.groups = [], {index: [] for index in range(10)}

    def apply(self, name, event):
        if name == "SelectionDelta":
            delta = event["m_delta"]
            ((form, value),) = delta["m_removeMask"].items()
            removed = set(value or ()) if form == "OneIndices" else set()
            if form == "ZeroIndices":
                removed = set(range(len(self.selected))) - set(value)
            kept = [t for i, t in enumerate(self.selected) if i not in removed]
            self.selected = kept + delta["m_addUnitTags"]
        if name == "ControlGroupUpdate":
            index, update = event["m_controlGroupIndex"], event["m_controlGroupUpdate"]
            if update == 2:
                self.selected = list(self.groups[index])
                return
            if update in (4, 5):
                for group in self.groups.values():
                    group[:] = [tag for tag in group if tag not in self.selected]
            before = self.groups[index] if update in (1, 5) else []
            added = [tag for tag in self.selected if tag not in before]
            self.groups[index] = before + added


@pytest.mark.parametrize("seed", range(5))
def test_every_command_is_for_the_units_that_the_events_select(seed):
    inputs, events = _random_game(seed)
    commands = [
        item for _, item in inputs if isinstance(item, game.UnitCommand | game.Autocast)
    ]
    followers = {0: Follower(), 1: Follower()}
    seen = 0
    for event in _decoded(events):
        user = event["_userid"]["m_userId"]
        name = event["_event"].removeprefix("NNet.Game.S").removesuffix("Event")
        followers[user].apply(name, event)
        if name in ("Cmd", "CommandManagerState"):
            command = commands[seen]
            seen += 1
            assert user == command.player - 1
            assert tuple(followers[user].selected) == command.unit_tags
            if name == "Cmd":
                ability = event["m_abil"]
                number = ability["m_abilLink"] * 32 + ability["m_abilCmdIndex"]
                assert number == 0x80000 + command.ability_id
                is_autocast = isinstance(command, game.Autocast)
                assert bool(event["m_cmdFlags"] & 64) == is_autocast
                queued = not is_autocast and command.queued
                assert bool(event["m_cmdFlags"] & 2) == queued
    assert seen == len(commands)


def test_a_target_unit_is_written_with_what_the_player_saw():
    writer = input_events.EventWriter(lambda tag: (105, 2, 33.5, 44.25))
    command = game.UnitCommand(1, 23, (7,), target_tag=262145)
    (event,) = _decoded(writer.write(3, command))
    target = event["m_data"]["TargetUnit"]
    assert (target["m_tag"], target["m_snapshotUnitLink"]) == (262145, 105)
    assert target["m_snapshotControlPlayerId"] == 2
    point = target["m_snapshotPoint"]
    assert (point["x"], point["y"]) == (33.5 * 4096, 44.25 * 4096)


def test_repeated_commands_are_written_as_the_game_writes_them():
    selections = input_events.Selections()
    writer = input_events.EventWriter(lambda tag: (48, 1, 10.0, 20.0))
    tags = (262145, 524289)
    given = [
        game.UnitCommand(1, 23, tags, target_point=(10.0, 20.0)),
        game.UnitCommand(1, 23, tags, target_point=(11.5, 20.0)),
        game.UnitCommand(1, 23, tags, target_point=(11.5, 20.0)),
        game.UnitCommand(1, 23, tags, target_tag=786433),
        game.UnitCommand(1, 23, tags, target_tag=786434),
    ]
    events = [e for item in selections.admit(given) for e in writer.write(4, item)]
    assert [event[2] for event in events] == [
        "SelectionDelta",
        "Cmd",
        "CmdUpdateTargetPoint",
        "CommandManagerState",
        "CommandManagerState",
        "Cmd",
        "CmdUpdateTargetUnit",
        "CommandManagerState",
    ]
    data = streams.game_events(events)
    reader = input_events.EventReader()
    read = [reader.read(e) for e in streams.PROTOCOL.decode_replay_game_events(data)]
    assert [item for item in read if item is not None][1:] == given


def test_selections_survive_the_file_however_they_change():
    selections = input_events.Selections()
    writer = input_events.EventWriter(lambda tag: (tag % 7, 1, 1.0, 1.0))
    given = [
        game.Select(1, (5, 6, 7)),
        game.Select(1, (5, 7)),
        game.Select(1, (5, 7, 9, 11)),
        game.ControlGroup(1, 3, game.SET),
        game.Select(1, (9, 5)),
        game.Select(1, ()),
        game.ControlGroup(1, 3, game.RECALL),
        game.Autocast(1, 31, (5, 7, 9, 11)),
        game.UnitCommand(1, 1, (11,), queued=True),
        game.CameraMove(1, 33.25, 10.00390625),
    ]
    admitted = selections.admit(given)
    events = [e for item in admitted for e in writer.write(0, item)]
    reader = input_events.EventReader()
    data = streams.game_events(events)
    read = [reader.read(e) for e in streams.PROTOCOL.decode_replay_game_events(data)]
    assert read == admitted
    # Only the last command needed a selection of its own.
    assert [i for i in admitted if i not in given] == [game.Select(1, (11,))]


def test_points_are_brought_onto_the_files_grid_before_they_are_played():
    selections = input_events.Selections()
    (select, command) = selections.admit(
        [game.UnitCommand(2, 16, (3,), target_point=(10.00001, -4.0))]
    )
    assert select == game.Select(2, (3,))
    assert command.target_point == (10.0, 0.0)


def test_long_selections_are_cut_to_what_a_file_can_hold():
    tags = tuple(range(1, 701))
    (select,) = input_events.Selections().admit([game.Select(1, tags)])
    assert select.unit_tags == tags[: input_events.MAX_SELECTION]
    writer = input_events.EventWriter(_unit)
    assert _read(_decoded(writer.write(0, select))) == [(0, select)]


def test_a_bit_mask_of_removed_units_is_understood():
    writer = input_events.EventWriter(_unit)
    tags = (11, 12, 13, 14)
    reader = input_events.EventReader()
    (first,) = _decoded(writer.write(0, game.Select(1, tags)))
    reader.read(first)
    # The real game writes masks, with a bit for each unit of the selection.
    first["m_delta"] |= {"m_removeMask": {"Mask": (3, 0b101)}, "m_addUnitTags": [15]}
    assert reader.read(first) == game.Select(1, (12, 14, 15))


def test_other_events_are_ignored():
    opening = members.opening_events(versions.LATEST)
    assert _read(_decoded(opening)) == []
    delta = input_events.EventWriter(_unit).write(0, game.Select(1, (5,)))
    (event,) = _decoded(delta)
    event["m_controlGroupId"] = 3  # the game's copy of a group, not the selection
    assert _read([event]) == []


def test_a_command_without_an_ability_is_an_error():
    writer = input_events.EventWriter(_unit)
    (event,) = _decoded(writer.write(0, game.UnitCommand(1, 16, (5,))))
    event["m_abil"] = None
    with pytest.raises(errors.ReplayError, match="expected an ability"):
        input_events.EventReader().read(event)
