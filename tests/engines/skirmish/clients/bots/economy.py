"""Plays the beginning of a game with BotAI's helpers: gather, expand, take gas, train, build.

SC2PATH=DIR python economy.py MAP
"""

import sys

from harness import CheckingBot, play
from sc2.ids.unit_typeid import UnitTypeId

LAST_SECOND = 270
MOST_BARRACKS, FIRST_MARINES = 1, 3


class EconomyBot(CheckingBot):
    async def on_step(self, iteration):
        if self.time > LAST_SECOND:
            await self._check()
            await self.finish()
            return
        await self.distribute_workers()
        for hall in self.townhalls.ready.idle:
            if self.can_afford(UnitTypeId.SCV) and self.supply_workers < 30:
                hall.train(UnitTypeId.SCV)
        await self._build()
        marines = self.units(UnitTypeId.MARINE).amount
        for barracks in self.structures(UnitTypeId.BARRACKS).ready.idle:
            saving = self.townhalls.amount < 2 and marines >= FIRST_MARINES
            if self.can_afford(UnitTypeId.MARINE) and not saving:
                barracks.train(UnitTypeId.MARINE)

    async def _build(self):
        depot, barracks = UnitTypeId.SUPPLYDEPOT, UnitTypeId.BARRACKS
        near = self.start_location.towards(self.game_info.map_center, 7)
        if (
            self.supply_left < 4
            and self.can_afford(depot)
            and not self.already_pending(depot)
        ):
            await self.build(depot, near=near)
        ready = self.tech_requirement_progress(barracks) == 1
        if ready and self.structures(barracks).amount < MOST_BARRACKS:
            if self.can_afford(barracks) and not self.already_pending(barracks):
                await self.build(barracks, near=near)
        elif self.townhalls.amount < 2 and not self.already_pending(
            UnitTypeId.COMMANDCENTER
        ):
            if self.can_afford(UnitTypeId.COMMANDCENTER):
                await self.expand_now()
        elif not self.gas_buildings and self.can_afford(UnitTypeId.REFINERY):
            geyser = self.vespene_geyser.closest_to(self.start_location)
            worker = self.select_build_worker(geyser)
            if worker is not None and not self.already_pending(UnitTypeId.REFINERY):
                worker.build_gas(geyser)

    async def _check(self):
        assert self.townhalls.amount >= 2, self.townhalls
        natural = self.townhalls.furthest_to(self.start_location)
        assert natural.position in self.expansion_locations_list
        assert set(self.owned_expansions) == {hall.position for hall in self.townhalls}
        assert self.supply_workers >= 16, self.supply_workers
        assert self.units(UnitTypeId.MARINE).amount >= 3
        assert self.vespene > 0
        assert self.gas_buildings.ready.amount == 1
        assert self.supply_cap > 15
        assert self.state.score.collected_minerals > 1000


if __name__ == "__main__":
    play(EconomyBot, sys.argv[1])
