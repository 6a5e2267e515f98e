"""Seeded random captures that look for trouble: every setting, odd floats, odd tags.

`capture(seed)` is a whole episode of a few steps. Almost all numbers come from small pools of
values that rules turn on (boundaries, defaults, duplicates, overflow), not from a range.
`tame=True` leaves out what makes a converter refuse: unknown ids, points off the grid.
"""

import dataclasses
import random
from typing import Any

from starmill.converters import protos
from starmill.converters.capture import Capture, Step
from starmill.schema import specs, vocab
from starmill.schema.settings import UNPLUGGED

raw_pb2, sc2api_pb2 = protos.raw_pb2, protos.sc2api_pb2

FLOATS = (
    *(0.0, -0.0, 1.0, 0.29, 0.58, 0.999, 1.5, 35.0, 125.5, -0.5, -3.7, 100.0, 200.0),
    *(0.01, 1e-30, 2147483520.0, 2147483648.0, -2147483648.0, 3e9, -3e9, 1e20),
)
WILD_FLOATS = (float("nan"), float("inf"), float("-inf"), 3.4e38)
INTEGERS = (0, 1, 2, 3, 7, 16, 255, 1800, 2**31 - 1, -1, -(2**31))
TAGS = (0, 1, 2, 3, 4, 5, 2**31, 2**32 - 1, 2**32 + 1, 2**32 + 2, 2**63, 2**64 - 1)
BOOLEANS = (
    "enable_action_repeat",
    "use_camera_position",
    "camera",
    "use_virtual_camera",
    "add_effects_to_units",
    "add_cargo_to_units",
    "mask_offscreen_enemies",
)
_VITALS = ("health", "shield", "energy", "health_max", "shield_max", "energy_max")


def settings(rng: random.Random) -> dict[str, Any]:
    raw: dict[str, Any] = {
        "resolution": dict.fromkeys("xy", rng.choice((1, 16, 32, 64, 100, 128, 256))),
        "max_unit_count": rng.choice((1, 2, 8, 20, 30, 64, 512)),
        "max_unit_selection_size": rng.choice((16, 17, 64)),
        "num_unit_features": rng.randint(39, 46),
        "shuffle_unit_tags": 0,
        **{name: rng.random() < 0.75 for name in BOOLEANS},
    }
    if not raw["use_virtual_camera"]:
        # What `camera` is without a position is undefined in the reference.
        raw["camera"] = raw["camera"] and raw["use_camera_position"]
    if rng.random() < 0.7:
        raw["virtual_camera_dimensions"] = {
            side: rng.choice((16.0, 13.0, 7.0, 4.3, 2.7, 30.1))
            for side in ("left", "right", "top", "bottom")
        }
    planes = [plane for plane in specs.PLANES if rng.random() < 0.5]
    side = rng.choice((4, 8, 12, 16))
    return {
        "raw_settings": raw,
        "num_action_types": rng.choice((539, 540, 556, 560, 564, 600)),
        "num_unit_types": rng.choice((217, 230, 243, 250)),
        "num_upgrade_types": rng.choice((86, 90, 91)),
        "max_num_upgrades": rng.choice((1, 3, 40)),
        "camera_width_world_units": rng.choice((24, 25, 7, 30)),
        "mmr": rng.choice((0, 3500, 6000)),
        "minimap": {"x": side, "y": side},
        "minimap_features": planes,
        "add_opponent_features": rng.random() < 0.4,
        "supervised": True,
        "crop_to_playable_area": rng.random() < 0.2,
    }


class Episode:
    """Makes the messages of one episode."""

    def __init__(self, seed: int, *, tame: bool, wild: bool) -> None:
        self.rng = random.Random(seed)
        self.tame = tame
        self.floats = (*FLOATS, *WILD_FLOATS) if wild else FLOATS
        self.settings = settings(self.rng)
        self.width = self.rng.choice((20, 64, 88, 128, 176, 200, 256))
        self.height = self.rng.choice((20, 64, 100, 128, 176, 192, 256))
        self.player_id = self.rng.choice((1, 2))
        self.types = [int(raw) for raw in vocab.table("unit_types")["raw_to_uint8"]]
        self.buffs = [int(raw) for raw in vocab.table("buffs")["raw_to_uint8"]]
        self.upgrades = [int(raw) for raw in vocab.table("upgrades")["raw_to_uint8"]]
        self.abilities = [f.ability_id for f in vocab.functions()]
        self.abilities += [int(a) for a in vocab.table("abilities")["orders"]]

    def maybe(self, share: float) -> bool:
        return self.rng.random() < share

    def point(self, message: Any) -> None:
        """Mostly on the map, often on a cell's border, seldom far off."""
        for name, side in (("x", self.width), ("y", self.height)):
            if self.maybe(0.9):
                value = self.rng.uniform(0, side)
                if self.maybe(0.5):
                    value = round(value * 4) / 4
                if not self.tame and self.maybe(0.1):
                    value = self.rng.choice((-0.25, -1.0, side + 0.5, *self.floats))
                setattr(message, name, value)

    def number(self, message: Any, field: Any) -> None:
        rng = self.rng
        if field.type == field.TYPE_FLOAT:
            setattr(message, field.name, rng.choice(self.floats))
        elif field.type == field.TYPE_BOOL:
            setattr(message, field.name, self.maybe(0.5))
        elif field.type == field.TYPE_INT32:
            setattr(message, field.name, rng.choice(INTEGERS))
        elif field.type == field.TYPE_UINT64:
            setattr(message, field.name, rng.choice(TAGS))
        elif field.enum_type is not None:
            value = rng.choice(field.enum_type.values).number
            setattr(message, field.name, value)

    def unit(self, message: Any) -> None:
        rng = self.rng
        for field in raw_pb2.Unit.DESCRIPTOR.fields:
            if not field.is_repeated and not self.maybe(0.25):
                self.number(message, field)
        if self.maybe(0.9):
            message.unit_type = rng.choice(self.types)
        if not self.tame and self.maybe(0.002):
            message.unit_type = rng.choice((254, 1, 3999, 2**32 - 1))
        if self.maybe(0.9):
            self.point(message.pos)
        self.belongings(message)

    def belongings(self, message: Any) -> None:
        """Orders, buffs, passengers."""
        rng = self.rng
        for _ in range(rng.choice((0, 0, 1, 2, 3, 4, 6))):
            self.order(message.orders.add())
        message.buff_ids.extend(
            rng.choice(self.buffs) for _ in range(rng.choice((0, 0, 1, 2, 3)))
        )
        if not self.tame and self.maybe(0.002):
            message.buff_ids.append(9999)
        for _ in range(rng.choice((0, 0, 0, 1, 3))):
            self.passenger(message.passengers.add())
        if self.maybe(0.3):
            message.rally_targets.add().tag = rng.choice(TAGS)

    def order(self, order: Any) -> None:
        if self.maybe(0.9):
            order.ability_id = self.rng.choice((*self.abilities, 4599, 2**32 - 1))
        if self.maybe(0.7):
            order.progress = self.rng.choice(self.floats)
        if self.maybe(0.3):
            self.point(order.target_world_space_pos)

    def passenger(self, rider: Any) -> None:
        rng = self.rng
        if self.maybe(0.9):
            rider.tag = rng.choice(TAGS)
        if self.maybe(0.9):
            rider.unit_type = rng.choice(self.types)
        if not self.tame and self.maybe(0.002):
            rider.unit_type = 3999
        for name in _VITALS:
            if self.maybe(0.8):
                setattr(rider, name, rng.choice(self.floats))

    def effect(self, effect: Any) -> None:
        rng = self.rng
        if self.maybe(0.9):
            effect.effect_id = rng.choice((0, 1, 11, 12, 5000))
        if self.maybe(0.7):
            effect.alliance = rng.choice((1, 2, 3, 4))
        if self.maybe(0.7):
            effect.owner = rng.choice(INTEGERS)
        if self.maybe(0.7):
            effect.radius = rng.choice(self.floats)
        for _ in range(rng.choice((0, 1, 1, 2, 4))):
            self.point(effect.pos.add())

    def planes(self, renders: Any) -> None:
        rng = self.rng
        side = self.settings["minimap"]["x"]
        for field in renders.DESCRIPTOR.fields:
            plane = getattr(renders, field.name)
            needed = field.name in ("height_map", "unit_type")
            if not needed and self.maybe(0.15):
                continue
            plane.size.x = plane.size.y = side
            bits = rng.choice((1, 8, 32, 8, 1))
            if field.name == "unit_type" and (self.tame or self.maybe(0.9)):
                bits = 32  # all that is accepted there
            elif self.maybe(0.05):
                continue  # no pixels at all
            plane.bits_per_pixel = bits
            if field.name == "unit_type" and bits == 32:
                values = [rng.choice(self.types) for _ in range(side * side)]
                plane.data = b"".join(v.to_bytes(4, "little") for v in values)
            else:
                plane.data = rng.randbytes(side * side * bits // 8)

    def observation(self, player_id: int) -> Any:
        rng = self.rng
        message = sc2api_pb2.ResponseObservation()
        observation = message.observation
        if self.maybe(0.9):
            observation.game_loop = rng.choice((0, 1, 22, 2**31, 2**32 - 1))
        common = observation.player_common
        for field in common.DESCRIPTOR.fields:
            if self.maybe(0.8):
                setattr(common, field.name, rng.choice((0, 1, 50, 200, 2**32 - 1)))
        common.player_id = player_id
        raw = observation.raw_data
        if self.maybe(0.9):
            self.point(raw.player.camera)
        raw.player.upgrade_ids.extend(
            rng.choice(self.upgrades) for _ in range(rng.choice((0, 1, 3, 8)))
        )
        if not self.tame and self.maybe(0.01):
            raw.player.upgrade_ids.append(999)
        for _ in range(rng.choice((0, 1, 5, 12, 25))):
            self.unit(raw.units.add())
        for _ in range(rng.choice((0, 0, 1, 3))):
            self.effect(raw.effects.add())
        self.planes(observation.feature_layer_data.minimap_renders)
        observation.score.score = 7
        return message

    def action(self, action: Any, units: list[Any]) -> None:
        rng = self.rng
        kind = rng.choice(("cmd", "cmd_pt", "cmd_unit", "cmd", "autocast", "camera"))
        if self.maybe(0.1):
            kind = rng.choice(("chat", "ui", "feature", "empty", "nothing"))
        tags = [unit.tag for unit in units] + list(TAGS)
        choice = [rng.choice(tags) for _ in range(rng.choice((0, 1, 1, 3, 20)))]
        function = rng.choice(
            [f for f in vocab.functions() if f.kind == kind] or [None]
        )
        ability = function.ability_id if function is not None else 0
        if self.maybe(0.2):
            ability = rng.choice((*self.abilities, 0, -1, 4599))
        if kind in ("cmd", "cmd_pt", "cmd_unit"):
            self.command(action.action_raw.unit_command, kind, ability, choice, tags)
        elif kind == "autocast":
            action.action_raw.toggle_autocast.ability_id = ability
            action.action_raw.toggle_autocast.unit_tags.extend(choice)
        elif kind == "camera":
            self.point(action.action_raw.camera_move.center_world_space)
            action.action_raw.camera_move.SetInParent()
        else:
            self.no_raw_action(action, kind, ability)

    def command(
        self,
        command: Any,
        kind: str,
        ability: int,
        commanded: list[int],
        tags: list[int],
    ) -> None:
        if self.maybe(0.95):
            command.ability_id = ability
        command.unit_tags.extend(commanded)
        if self.maybe(0.6):
            command.queue_command = self.maybe(0.5)
        if kind == "cmd_pt":
            command.target_world_space_pos.SetInParent()
            self.point(command.target_world_space_pos)
        elif kind == "cmd_unit":
            command.target_unit_tag = self.rng.choice(tags)

    def no_raw_action(self, action: Any, kind: str, ability: int) -> None:
        """What has to be skipped; "nothing" stays an empty action."""
        if kind == "chat":
            action.action_chat.message = "gl hf"
        elif kind == "ui":
            action.action_ui.select_army.selection_add = True
        elif kind == "feature":
            action.action_feature_layer.unit_command.ability_id = ability
        elif kind == "empty":
            action.action_raw.SetInParent()

    def request(self, units: list[Any]) -> Any:
        request = sc2api_pb2.RequestAction()
        for _ in range(self.rng.choice((0, 1, 1, 2, 3))):
            self.action(request.actions.add(), units)
            for _ in range(self.rng.choice((0, 0, 0, 1, 4))):
                request.actions.add().CopyFrom(request.actions[-2])
        return request

    def step(self) -> Step:
        rng = self.rng
        player = self.observation(self.player_id)
        opponent = self.observation(3 - self.player_id) if self.maybe(0.6) else None
        request = self.request(list(player.observation.raw_data.units))
        return Step(
            player=player.SerializeToString(deterministic=True),
            opponent=None
            if opponent is None
            else opponent.SerializeToString(deterministic=True),
            force_action=request.SerializeToString(deterministic=True)
            if self.maybe(0.95)
            else None,
            delay=rng.choice((1, 2, 127, 128, 1000, -4, 2**31 - 1)),
        )

    def function(self) -> int:
        """Any kind as often as the others, and now and then one that does not exist."""
        if self.maybe(0.1):
            return self.rng.choice((-1, 564, 1000))
        kind = self.rng.choice((*vocab.KINDS, "no_op", "camera_move"))
        return self.rng.choice([f.id for f in vocab.functions() if f.kind == kind])

    def agent_action(self, units: int) -> dict[str, Any]:
        """An agent's action: any function, rows on and off the list, arguments missing."""
        rng = self.rng
        raw = self.settings["raw_settings"]
        cells = raw["resolution"]["x"] ** 2
        rows = (0, 1, units - 1, units, units + 3, raw["max_unit_count"], -1)
        action = {
            "function": self.function(),
            "delay": rng.choice((1, 5, 127, 0, -3, 4000)),
            "queued": rng.choice((0, 1, 1, 2, -1)),
            "repeat": rng.choice((0, 1, 2, 5, -1, -2)),
            "unit_tags": [rng.choice(rows) for _ in range(rng.choice((0, 1, 4, 64)))],
            "target_unit_tag": rng.choice(rows),
            "world": rng.choice((rng.randrange(cells), cells - 1, 0, 0)),
        }
        if not self.tame and self.maybe(0.1):
            action["world"] = rng.choice((-1, -cells, cells, cells + 5, 2**31 - 1))
        if not self.tame and self.maybe(0.1):
            del action[rng.choice(list(action))]
        return action

    def game_info(self) -> bytes:
        info = sc2api_pb2.ResponseGameInfo()
        kinds = [1, self.rng.choice((1, 2))]
        if self.maybe(0.3):
            kinds.insert(self.rng.randint(0, 2), 3)
        for kind in kinds:
            player = info.player_info.add(player_id=len(info.player_info), type=kind)
            if self.maybe(0.9):
                player.race_requested = self.rng.choice((0, 1, 2, 3, 4))
        info.start_raw.map_size.x = self.width
        info.start_raw.map_size.y = self.height
        return info.SerializeToString(deterministic=True)

    def replay_info(self) -> bytes | None:
        if self.maybe(0.2):
            return None
        info = sc2api_pb2.ResponseReplayInfo()
        for player_id in (*self.rng.sample((1, 2), 2), 1):
            entry = info.player_info.add()
            entry.player_info.player_id = player_id
            if self.maybe(0.8):
                entry.player_mmr = self.rng.choice((-36400, 0, 3501, 7000))
        return info.SerializeToString(deterministic=True)


def capture(
    seed: int,
    steps: int = 4,
    *,
    tame: bool = False,
    wild: bool = False,
    agent: bool = False,
) -> Capture:
    """An episode of random messages.

    tame: all of it converts.  wild: floats may be NaN or infinite.
    agent: an agent's own actions go back to the game, not those in the messages.
    """
    result = Episode(seed, tame=tame, wild=wild)
    messages = tuple(result.step() for _ in range(steps))
    actions = None
    if agent:
        result.settings["supervised"] = result.maybe(0.3)
        observations = [
            sc2api_pb2.ResponseObservation.FromString(step.player) for step in messages
        ]
        actions = tuple(
            result.agent_action(len(message.observation.raw_data.units))
            for message in observations
        )
    return Capture(
        settings=result.settings,
        game_info=result.game_info(),
        replay_info=result.replay_info(),
        steps=messages,
        agent_actions=actions,
        meta={"name": f"random_{seed}", "seed": seed, "compare_unit_tags": "exact"},
    )


def typical(seed: int, steps: int) -> Capture:
    """A tame episode of a common size: the paper's settings and two hundred units."""
    result = Episode(seed, tame=True, wild=False)
    result.settings = UNPLUGGED.to_json()
    result.width, result.height = 176, 184
    messages = []
    for _ in range(steps):
        step = result.step()
        message = sc2api_pb2.ResponseObservation.FromString(step.player)
        units = message.observation.raw_data.units
        while len(units) < 200:
            result.unit(units.add())
        data = message.SerializeToString(deterministic=True)
        messages.append(dataclasses.replace(step, player=data))
    return Capture(
        settings=result.settings,
        game_info=result.game_info(),
        replay_info=result.replay_info(),
        steps=tuple(messages),
        meta={"name": f"typical_{seed}"},
    )
