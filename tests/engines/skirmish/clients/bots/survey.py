"""Asks python-sc2 about a map: the main ramp, the walls at it, and all expansions.

    SC2PATH=DIR python survey.py MAP

Compares what python-sc2 computes with what the game accepts.
"""

import sys

from harness import CheckingBot, play
from sc2.ids.unit_typeid import UnitTypeId


class SurveyBot(CheckingBot):
    async def on_step(self, iteration):
        if iteration != 2:
            return
        ramp = self.main_base_ramp
        assert len(ramp.upper) == 2, ramp.upper
        assert ramp.top_center.distance_to(self.start_location) < 20
        depots = [*ramp.corner_depots, ramp.depot_in_middle]
        assert len(depots) == 3, depots
        for place in depots:
            assert await self.can_place_single(UnitTypeId.SUPPLYDEPOT, place), place
        for place in (ramp.barracks_in_middle, ramp.barracks_correct_placement):
            assert await self.can_place_single(UnitTypeId.BARRACKS, place), place
        assert len(ramp.protoss_wall_buildings) == 2
        assert ramp.protoss_wall_pylon is not None
        assert ramp.protoss_wall_warpin is not None
        await self._check_expansions()
        await self.finish()

    async def _check_expansions(self):
        expansions = self.expansion_locations_list
        starts = (self.start_location, self.enemy_start_locations[0])
        assert set(starts) <= set(expansions)
        for place in set(expansions) - set(starts):
            assert await self.can_place_single(UnitTypeId.COMMANDCENTER, place), place
        sizes = {len(units) for units in self.expansion_locations_dict.values()}
        assert sizes == {10}, sizes
        worker = self.workers.first
        for place in expansions:
            near = place.towards(self.game_info.map_center, 4)
            assert await self.client.query_pathing(worker, near), place
        assert await self.get_next_expansion() in expansions


if __name__ == "__main__":
    play(SurveyBot, sys.argv[1])
