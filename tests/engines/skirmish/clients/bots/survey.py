"""A bot that asks python-sc2 about a map: the main ramp, the walls at it, and all expansions.

    SC2PATH=DIR python survey.py MAP

Compares what python-sc2 computes with what the game accepts. Runs in python-sc2's environment.
"""

import sys

from sc2 import maps
from sc2.bot_ai import BotAI
from sc2.data import Difficulty, Race
from sc2.ids.unit_typeid import UnitTypeId
from sc2.main import run_game
from sc2.player import Bot, Computer


class SurveyBot(BotAI):
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
        expansions = self.expansion_locations_list
        assert self.start_location in expansions
        assert self.enemy_start_locations[0] in expansions
        for place in expansions:
            if place not in (self.start_location, self.enemy_start_locations[0]):
                assert await self.can_place_single(UnitTypeId.COMMANDCENTER, place)
        sizes = {len(units) for units in self.expansion_locations_dict.values()}
        assert sizes == {10}, sizes
        worker = self.workers.first
        for place in expansions:
            near = place.towards(self.game_info.map_center, 4)
            assert await self.client.query_pathing(worker, near), place
        assert await self.get_next_expansion() in expansions
        print("expansions", len(expansions))  # noqa: T201
        await self.client.leave()


def main():
    run_game(
        maps.get(sys.argv[1]),
        [Bot(Race.Terran, SurveyBot()), Computer(Race.Zerg, Difficulty.VeryEasy)],
        realtime=False,
        random_seed=1,
    )


if __name__ == "__main__":
    main()
