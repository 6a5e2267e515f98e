"""Asks the game about placement, paths and abilities, with units made by debug commands.

    SC2PATH=DIR python queries.py MAP

MAP is an empty one, on which nobody has units at the start.
"""

import sys

from harness import CheckingBot, play
from sc2.ids.ability_id import AbilityId
from sc2.ids.unit_typeid import UnitTypeId
from sc2.position import Point2


class QueriesBot(CheckingBot):
    async def on_step(self, iteration):
        if iteration != 2:
            return
        centre = self.game_info.map_center
        assert not self.all_own_units
        assert await self._can_place(centre)
        await self._make(UnitTypeId.COMMANDCENTER, centre)
        assert not await self._can_place(centre)
        assert await self._can_place(centre.offset(Point2((12, 0))))
        await self._make(UnitTypeId.MARINE, centre.offset(Point2((8, 0))))
        marine = self.units(UnitTypeId.MARINE).first
        path = await self.client.query_pathing(marine, centre.offset(Point2((20, 0))))
        assert 11 < path < 16, path
        paths = [[marine, centre.offset(Point2((8, y)))] for y in (4, 8)]
        near, far = await self.client.query_pathings(paths)
        assert near < far
        (abilities,) = await self.get_available_abilities([marine])
        assert {AbilityId.STOP_STOP, AbilityId.MOVE_MOVE} <= set(abilities)
        place = await self.find_placement(UnitTypeId.SUPPLYDEPOT, centre)
        assert place is not None
        assert place.distance_to(centre) < 20
        await self.client.debug_kill_unit(self.all_own_units)
        await self._advance_steps(4)
        assert not self.all_own_units
        assert await self._can_place(centre)
        await self.finish()

    async def _can_place(self, place):
        single = await self.can_place_single(UnitTypeId.COMMANDCENTER, place)
        (listed,) = await self.can_place(AbilityId.TERRANBUILD_COMMANDCENTER, [place])
        assert single == listed
        return single

    async def _make(self, unit_type, place):
        await self.client.debug_create_unit([[unit_type, 1, place, 1]])
        await self._advance_steps(4)


if __name__ == "__main__":
    play(QueriesBot, sys.argv[1])
