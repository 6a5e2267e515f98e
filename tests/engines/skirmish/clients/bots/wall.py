"""Builds a wall of depots and a barracks at the main ramp, and lowers the depots.

SC2PATH=DIR python wall.py MAP
"""

import sys

from harness import CheckingBot, play
from sc2.ids.ability_id import AbilityId
from sc2.ids.unit_typeid import UnitTypeId

LAST_SECOND = 300


class WallBot(CheckingBot):
    async def on_step(self, iteration):
        assert self.time < LAST_SECOND, self.structures
        for hall in self.townhalls.idle:
            if self.can_afford(UnitTypeId.SCV) and self.supply_workers < 16:
                hall.train(UnitTypeId.SCV)
        depots = self.structures.of_type(
            {UnitTypeId.SUPPLYDEPOT, UnitTypeId.SUPPLYDEPOTLOWERED}
        )
        for depot in self.structures(UnitTypeId.SUPPLYDEPOT).ready:
            depot(AbilityId.MORPH_SUPPLYDEPOT_LOWER)
        places = set(self.main_base_ramp.corner_depots) - {d.position for d in depots}
        barracks = UnitTypeId.BARRACKS
        if places:
            self._order(UnitTypeId.SUPPLYDEPOT, places.pop())
        elif not self.structures(barracks) and depots.ready:
            self._order(barracks, self.main_base_ramp.barracks_correct_placement)
        elif self.structures(barracks).ready and len(depots.ready) == 2:
            place = self.main_base_ramp.barracks_correct_placement
            assert self.structures(barracks).first.position == place
            if all(d.type_id == UnitTypeId.SUPPLYDEPOTLOWERED for d in depots):
                await self.finish()

    def _order(self, building, place):
        if self.can_afford(building) and not self.already_pending(building):
            worker = self.select_build_worker(place)
            if worker is not None:
                worker.build(building, place)


if __name__ == "__main__":
    play(WallBot, sys.argv[1])
