"""Plays one bot on one map against the easiest computer player, and fails unless it finishes.

A bot sets `finished` when all that it checks has held, and leaves the game.
"""

from sc2 import maps
from sc2.bot_ai import BotAI
from sc2.data import Difficulty, Race
from sc2.main import run_game
from sc2.player import Bot, Computer

GAME_STEP = 8  # loops between two turns of a bot


class CheckingBot(BotAI):
    finished = False

    async def on_start(self):
        self.client.game_step = GAME_STEP

    async def finish(self):
        type(self).finished = True
        await self.client.leave()


def play(bot, map_name, opponent=None):
    """Plays a game; raises if the bot has not finished."""
    other = opponent or Computer(Race.Zerg, Difficulty.VeryEasy)
    players = [Bot(Race.Terran, bot()), other]
    run_game(maps.get(map_name), players, realtime=False, random_seed=1)
    assert bot.finished, "the bot did not finish"
