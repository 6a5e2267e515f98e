"""Bots of python-sc2 for tests: one plays, one crashes, one hangs, one cheats."""

import sys
import time

from sc2.bot_ai import BotAI
from sc2.data import Race
from sc2.ids.unit_typeid import UnitTypeId


class WorkerRush(BotAI):
    """Attacks the enemy's start with all workers, and trains more."""

    async def on_step(self, iteration):
        target = self.enemy_start_locations[0]
        for worker in self.workers:
            if worker.is_idle or iteration == 0:
                worker.attack(target)
        if self.townhalls and self.can_afford(UnitTypeId.PROBE):
            hall = self.townhalls.first
            if hall.is_idle:
                hall.train(UnitTypeId.PROBE)


class Protoss(WorkerRush):
    RACE = Race.Protoss


class Surrendering(BotAI):
    async def on_step(self, iteration):
        if iteration == 5:
            await self.client.leave()


class Crashing(BotAI):
    async def on_step(self, iteration):
        if iteration == 5:
            raise RuntimeError("this bot is broken")


class Hanging(BotAI):
    async def on_step(self, iteration):
        if iteration == 5:
            time.sleep(1000)  # noqa: ASYNC251  # that is the point


class Exiting(BotAI):
    async def on_start(self):
        sys.exit(0)


class Cheating(BotAI):
    """Asks for what a rated game refuses; python-sc2 raises an error then."""

    async def on_step(self, iteration):
        await self.client.debug_all_resources()
