"""Compares the damage that python-sc2 computes from the game's data with what a shot takes.

SC2PATH=DIR python damage.py MAP
"""

import sys

from harness import CheckingBot, play
from sc2.ids.unit_typeid import UnitTypeId
from sc2.position import Point2

PAIRS = (
    (UnitTypeId.MARINE, UnitTypeId.ROACH),
    (UnitTypeId.MARINE, UnitTypeId.ZEALOT),
    (UnitTypeId.MARAUDER, UnitTypeId.ROACH),
    (UnitTypeId.STALKER, UnitTypeId.ULTRALISK),
    (UnitTypeId.HYDRALISK, UnitTypeId.THOR),
)
LOOPS = 60  # more than any weapon here waits


class DamageBot(CheckingBot):
    async def on_start(self):
        self.client.game_step = 1

    async def on_step(self, iteration):
        if iteration != 2:
            return
        for attacker_type, target_type in PAIRS:
            await self._compare(attacker_type, target_type)
        await self.finish()

    async def _compare(self, attacker_type, target_type):
        centre = self.game_info.map_center
        await self.client.debug_create_unit([[attacker_type, 1, centre, 1]])
        beside = centre.offset(Point2((2.5, 0)))
        await self.client.debug_create_unit([[target_type, 1, beside, 2]])
        await self._advance_steps(2)
        attacker = self.units(attacker_type).first
        target = self.enemy_units(target_type).first
        damage, _, reach = attacker.calculate_damage_vs_target(target)
        assert reach > 0
        attacker.attack(target)
        before = target.health + target.shield
        for _ in range(LOOPS):
            await self._advance_steps(1)
            enemies = self.enemy_units(target_type)
            after = enemies.first.health + enemies.first.shield
            if after < before - 1:
                break
            before = after  # a zerg unit regains health while it waits
        assert abs(before - after - damage) < 0.05, (
            attacker_type,
            before,
            after,
            damage,
        )
        await self.client.debug_kill_unit(self.units | self.enemy_units)
        await self._advance_steps(4)


if __name__ == "__main__":
    play(DamageBot, sys.argv[1])
