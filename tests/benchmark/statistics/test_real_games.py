"""Statistics of real short games against slow counts from the game's own messages."""

import collections

import numpy as np
import pytest

from starmill.benchmark.opponents import random_agent, specialists, styles
from starmill.benchmark.statistics import function_groups, play_record
from starmill.converters.protos import error_pb2, raw_pb2, sc2api_pb2
from starmill.schema import vocab
from starmill.schema.settings import UNPLUGGED
from tests.factories import tapped_games

LOOPS_PER_MINUTE = 1344


class Meddler:
    """A scripted player of whose turns every third goes to a player who acts at random."""

    settings = UNPLUGGED

    def reset(self, seed, race):
        self._players = (
            specialists.Specialist(UNPLUGGED, styles.STYLES["rush"]),
            random_agent.RandomAgent(UNPLUGGED),
        )
        for player in self._players:
            player.reset(seed, race)
        self._turn = 0

    @property
    def value(self):
        return self._turn / 1000

    def act(self, observation):
        self._turn += 1
        return self._players[self._turn % 3 == 0].act(observation)


@pytest.fixture(scope="module")
def tapped():
    return tapped_games.play([Meddler()], minutes=4.4, difficulty="medium")


def _messages(tapped):
    """Every action and observation in order, parsed whole; the last look without fog left out."""
    out = []
    for request, answer in zip(tapped.requests, tapped.answers, strict=True):
        kind = request.WhichOneof("request")
        if kind == "action":
            results = sc2api_pb2.ResponseAction.FromString(answer).result
            out.append((kind, request.action, list(results)))
        elif kind == "observation" and not request.observation.disable_fog:
            seen = sc2api_pb2.ResponseObservation.FromString(answer)
            out.append((kind, seen, None))
    return out


def _functions_of(action):
    """The names of functions that an action of the interface may stand for."""
    raw = action.action_raw
    if raw.HasField("camera_move"):
        return {"raw_move_camera"}
    command = raw.unit_command if raw.HasField("unit_command") else raw.toggle_autocast
    return {f.name for f in vocab.functions() if f.ability_id == command.ability_id}


def _group_of(action):
    """The group by the ability's name, in the words of this test."""
    (word,) = {name.split("_")[0] for name in _functions_of(action)}
    for prefix, group in (
        (("Build",), "build"),
        (("Train", "TrainWarp"), "train"),
        (("Research",), "research"),
        (("Morph",), "morph"),
        (("Attack", "Scan"), "attack"),
        (("Harvest",), "harvest"),
        (("raw",), "camera"),
    ):
        if word in prefix:
            return group
    return None


def test_refusals_are_those_that_the_game_reported(tapped):
    """Each action is refused if the game said so at once, or before the next action."""
    names = {number: name for name, number in error_pb2.ActionResult.items()}
    sent, refused = collections.Counter(), collections.Counter()
    latest = None
    for kind, message, results in _messages(tapped):
        if kind == "action":
            latest = message
            sent[_group_of(message.actions[0])] += 1
            if all(result != error_pb2.Success for result in results):
                refused[_group_of(message.actions[0]), names[results[0]]] += 1
                latest = None
        elif latest is not None:
            reports = list(message.action_errors)
            ability = latest.actions[0].action_raw.unit_command.ability_id
            if len(reports) >= len(latest.actions):
                assert {report.ability_id for report in reports} == {ability}
                reason = names[reports[len(latest.actions) - 1].result]
                refused[_group_of(latest.actions[0]), reason] += 1
            latest = None
    record = tapped.game.records[0]
    assert sum(refused.values()) > 10
    groups = ("build", "train", "research", "morph", "attack", "harvest", "camera")
    for group in groups:
        assert record.commands.get(group, 0) == sent[group], group
        expected = {r: times for (g, r), times in refused.items() if g == group}
        assert dict(record.refused.get(group, {})) == expected, group
    decisions = ("build", "train", "research", "morph")
    assert record.decisions == sum(sent[group] for group in decisions)
    assert record.refused_decisions == sum(
        times for (group, _), times in refused.items() if group in decisions
    )


def test_possessions_are_those_of_the_latest_observation_of_each_minute(tapped):
    observations = [
        message.observation
        for kind, message, _ in _messages(tapped)
        if kind == "observation"
    ]
    record = tapped.game.records[0]
    minutes = record.game_loops // LOOPS_PER_MINUTE
    assert minutes == 4
    for minute in range(1, minutes + 1):
        before = [o for o in observations if o.game_loop <= minute * LOOPS_PER_MINUTE]
        player = before[-1].player_common
        for name in play_record.POSSESSIONS:
            expected = getattr(player, name)
            assert record.at_minute(name, minute) == expected, (name, minute)
        # The agent's turn number, which it gives as its value.
        assert record.at_minute("value", minute) == pytest.approx(len(before) / 1000)
    assert record.at_minute("minerals", minutes + 1) is None
    assert record.at_minute("minerals", 0) is None


def test_attacks_are_those_of_the_requests(tapped):
    """Who attacked where, from the messages: in world units, by tags and base positions."""
    (_, info) = next(tapped.of_kind("game_info"))
    size = sc2api_pb2.ResponseGameInfo.FromString(info).start_raw.map_size
    side = max(size.x, size.y)
    expected, seen, home = [], None, None
    for kind, message, _ in _messages(tapped):
        if kind == "observation":
            seen = message.observation
            own = {u.tag: u for u in seen.raw_data.units if u.alliance == raw_pb2.Self}
            if home is None:
                home = np.mean([(u.pos.x, u.pos.y) for u in own.values()], axis=0)
            continue
        command = message.actions[0].action_raw.unit_command
        if _group_of(message.actions[0]) != "attack":
            continue
        units = [tag for tag in command.unit_tags if tag in own]
        if command.HasField("target_unit_tag"):
            (target,) = [
                u.pos for u in seen.raw_data.units if u.tag == command.target_unit_tag
            ]
        else:
            target = command.target_world_space_pos
        bases = [(u.pos.x, u.pos.y) for u in own.values() if u.ideal_harvesters > 0]
        distance = min(
            max(abs(x - target.x), abs(y - target.y)) for x, y in [*bases, home]
        )
        expected.append(
            (
                seen.game_loop,
                len(units),
                seen.player_common.army_count,
                distance / side,
            )
        )
    attacks = tapped.game.records[0].attacks
    assert len(attacks) == len(expected) > 5
    assert any(attack.is_away for attack in attacks)
    for attack, (loop, units, army, distance) in zip(attacks, expected, strict=True):
        assert (attack.loop, attack.units, attack.army) == (loop, units, army)
        # Grid cells are coarser than world units.
        assert attack.distance == pytest.approx(distance, abs=0.01)
        assert attack.share == (None if not army else min(1, units / army))


def test_material_at_the_limit_counts_every_unit_at_its_price(tapped):
    """Sorted by names that this test knows; prices are the game's, a few of them known here."""
    assert tapped.game.ending.reason == "limit"
    (answer,) = [
        a for r, a in tapped.of_kind("observation") if r.observation.disable_fog
    ]
    units = sc2api_pb2.ResponseObservation.FromString(answer).observation.raw_data.units
    (_, data) = next(tapped.of_kind("data"))
    table = {u.unit_id: u for u in sc2api_pb2.ResponseData.FromString(data).units}
    price = {u.name: u.mineral_cost + u.vespene_cost for u in table.values()}
    assert (price["SCV"], price["Marine"], price["Barracks"]) == (50, 50, 150)
    assert (price["Zergling"], price["Roach"], price["CommandCenter"]) == (25, 100, 400)
    workers = {"SCV", "Drone", "MULE"}
    army = {"Marine", "Zergling", "Roach", "Queen", "Baneling"}
    worthless = {"Overlord", "Larva", "Broodling", "Egg"}
    buildings = {
        "CommandCenter", "CommandCenterFlying", "SupplyDepot", "SupplyDepotLowered",
        "Barracks", "Refinery", "EngineeringBay", "Hatchery", "SpawningPool", "Extractor",
        "EvolutionChamber", "RoachWarren", "CreepTumorBurrowed", "SpineCrawler",
    }  # fmt: skip
    for alliance, side in (
        (raw_pb2.Self, tapped.game.material.own),
        (raw_pb2.Enemy, tapped.game.material.enemy),
    ):
        mine = [
            (table[u.unit_type].name, u.build_progress)
            for u in units
            if u.alliance == alliance
        ]
        unknown = {name for name, _ in mine}
        unknown -= {*workers, *army, *worthless, *buildings}
        assert not unknown, unknown
        assert side.structures == sum(name in buildings for name, _ in mine)
        for kinds, worth in ((workers | buildings, side.economy), (army, side.army)):
            spent = sum(price[name] * done for name, done in mine if name in kinds)
            assert worth == pytest.approx(spent, abs=1)
    assert tapped.game.material.own.economy > 1000


def test_both_seats_of_a_game_have_records():
    agents = [
        random_agent.RandomAgent(UNPLUGGED),
        specialists.Specialist(UNPLUGGED, styles.STYLES["economy"]),
    ]
    game = tapped_games.play(agents, minutes=1.2).game
    first, second = game.records
    # One commands at random, the other knows what it can afford.
    assert first.refused_decisions > 10 * second.refused_decisions
    assert second.at_minute("food_workers", 1) > 12
    assert first.at_minute("value", 1) is None
    assert set(first.commands) <= set(function_groups.GROUPS)
    assert play_record.PlayRecord.from_json(first.to_json()) == first
