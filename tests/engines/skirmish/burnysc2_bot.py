"""A simple bot of python-sc2's kind: gathers, builds workers, looks around, surrenders.

Runs in an environment of its own (`make burnysc2`), since python-sc2's protobuf package takes the
same import name as pysc2's.  SC2PATH=DIR .venv-burnysc2/bin/python burnysc2_bot.py
"""

import json

from sc2 import maps
from sc2.bot_ai import BotAI
from sc2.data import Difficulty, Race
from sc2.ids.unit_typeid import UnitTypeId
from sc2.main import run_game
from sc2.player import Bot, Computer

LAST_ITERATION = 200


class WorkerBot(BotAI):
    seen: dict = {}

    async def on_step(self, iteration):
        hall = self.townhalls.first
        if self.can_afford(UnitTypeId.SCV) and hall.is_idle:
            hall.train(UnitTypeId.SCV)
        for worker in self.workers.idle:
            worker.gather(self.mineral_field.closest_to(hall))
        if iteration == 5:
            self.workers.random.move(self.game_info.map_center)
        if iteration == LAST_ITERATION:
            WorkerBot.seen = {
                "iteration": iteration,
                "workers": int(self.workers.amount),
                "minerals": int(self.minerals),
                "map": self.game_info.map_name,
                "enemy_starts": len(self.enemy_start_locations),
                "expansions": len(self.expansion_locations_list),
            }
            await self.client.leave()


def main():
    run_game(
        maps.get("AmberBasin"),
        [Bot(Race.Terran, WorkerBot()), Computer(Race.Zerg, Difficulty.VeryEasy)],
        realtime=False,
        random_seed=1,
    )
    print(json.dumps(WorkerBot.seen))  # noqa: T201


if __name__ == "__main__":
    main()
