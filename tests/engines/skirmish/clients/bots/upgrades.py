"""Researches upgrades in buildings that debug commands make.

SC2PATH=DIR python upgrades.py MAP
"""

import sys

from harness import CheckingBot, play
from sc2.ids.unit_typeid import UnitTypeId
from sc2.ids.upgrade_id import UpgradeId

RESEARCH = (
    (UnitTypeId.ENGINEERINGBAY, UpgradeId.TERRANINFANTRYWEAPONSLEVEL1),
    (UnitTypeId.SPAWNINGPOOL, UpgradeId.ZERGLINGMOVEMENTSPEED),
    (UnitTypeId.CYBERNETICSCORE, UpgradeId.WARPGATERESEARCH),
)
MOST_LOOPS = 4500


class UpgradesBot(CheckingBot):
    async def on_step(self, iteration):
        if iteration != 2:
            return
        await self.client.debug_all_resources()
        centre = self.game_info.map_center
        await self.client.debug_create_unit([[UnitTypeId.PYLON, 1, centre, 1]])
        for index, (building, _) in enumerate(RESEARCH):
            place = centre.offset((0, 4.5 * (index - 1)) if index != 1 else (5, 0))
            await self.client.debug_create_unit([[building, 1, place, 1]])
        await self._advance_steps(16)
        for _, upgrade in RESEARCH:
            assert self.can_afford(upgrade), upgrade
            assert self.already_pending_upgrade(upgrade) == 0
            assert self.research(upgrade), upgrade
        await self._advance_steps(16)
        for _, upgrade in RESEARCH:
            assert 0 < self.already_pending_upgrade(upgrade) < 1, upgrade
        wanted = {upgrade for _, upgrade in RESEARCH}
        while not wanted <= self.state.upgrades:
            assert self.state.game_loop < MOST_LOOPS, self.state.upgrades
            await self._advance_steps(64)
        assert {self.already_pending_upgrade(upgrade) for upgrade in wanted} == {1}
        await self.finish()


if __name__ == "__main__":
    play(UpgradesBot, sys.argv[1])
