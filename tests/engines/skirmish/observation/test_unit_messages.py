"""The bytes of units: their limit, and numbers that take many bytes."""

import numpy as np

from starmill.converters.protos import raw_pb2
from starmill.engines.skirmish.observation import unit_messages, visible_units
from tests.factories import arena

X, Y = arena.OPEN
FIELD = 2  # ObservationRaw.units


def _write(game, view):
    out = np.zeros(len(view.units) * unit_messages.MAX_UNIT_BYTES, np.uint8)
    on_screen = np.ones(len(view.units), bool)
    size = unit_messages.write_units(game.world.state, view, on_screen, FIELD, out)
    return out[:size].tobytes()


def test_a_unit_with_everything_fits_its_room():
    game = arena.new_game()
    row = arena.put(game, "Medivac", 1, X, Y)
    riders = [arena.put(game, "Marine", 1, X, Y) for _ in range(8)]
    units = game.world.units
    for name in units.dtype.names:
        if units.dtype[name].kind == "i" and name not in {
            *("tag", "owner", "unit_type", "alive", "carrier", "addon", "host"),
            *("order_count", "buff_count", "cargo_count", "seen", "cloaked"),
        }:
            units[name][[row, *riders]] = -1  # ten bytes each
    units["shield_max"][[row, *riders]] = units["energy_max"][[row, *riders]] = 200.0
    units["carrier"][riders] = row
    units["addon"][row] = riders[0]
    units["rally_kind"][row] = units["buff_max"][row] = 1
    units["order_count"][row], units["cargo_count"][row] = 8, 8
    units["buff_count"][row] = 4
    game.world.cargo[row] = riders
    game.world.orders["ability"][row] = game.world.orders["target_tag"][row] = -1
    game.world.orders["target"][row], game.world.orders["progress"][row] = 1, 0.5
    game.world.buffs["id"][row] = -1
    view = visible_units.player_view(game, 1)
    index = int(np.flatnonzero(view.rows == row)[0])
    one = visible_units.View(*(column[index : index + 1] for column in view))
    data = _write(game, one)
    assert len(data) <= unit_messages.MAX_UNIT_BYTES
    # The parser keeps the low 32 bits of such numbers, so only count what is there.
    (unit,) = raw_pb2.ObservationRaw.FromString(data).units
    assert (len(unit.orders), len(unit.passengers), len(unit.buff_ids)) == (8, 8, 4)
    assert unit.rally_targets[0].tag == 2**64 - 1


def test_the_longest_tag_survives():
    game = arena.new_game()
    marine = arena.put(game, "Marine", 1, X, Y)
    tag = (2048 << 18) | 0x3FFFF
    game.world.units["tag"][marine] = tag
    view = visible_units.player_view(game, 1)
    units = raw_pb2.ObservationRaw.FromString(_write(game, view)).units
    assert tag in [unit.tag for unit in units]
