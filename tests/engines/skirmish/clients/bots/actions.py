"""Gives units orders of every kind, and looks for them in the next observations.

SC2PATH=DIR python actions.py MAP
"""

import sys

from harness import CheckingBot, play
from sc2.ids.ability_id import AbilityId
from sc2.ids.unit_typeid import UnitTypeId


class ActionsBot(CheckingBot):
    async def on_step(self, iteration):
        if iteration == 1:
            await self.chat_send("(glhf)")
        if iteration == 2:
            assert len(self.state.chat) == 1, self.state.chat
            assert self.owned_expansions == {self.start_location: self.townhalls.first}
            await self._check_orders()
            await self._check_queues()
            await self.finish()

    async def _check_orders(self):
        centre = self.game_info.map_center
        mover, patroller, attacker, holder, gatherer = self.workers[:5]
        mover.move(centre)
        patroller.patrol(centre)
        attacker.attack(centre)
        holder.hold_position()
        gatherer.gather(self.mineral_field.closest_to(gatherer))
        await self._advance_steps(4)
        workers = {worker.tag: worker for worker in self.workers}
        assert workers[mover.tag].is_moving
        (order,) = workers[patroller.tag].orders
        assert order.ability.exact_id == AbilityId.PATROL_PATROL
        assert workers[attacker.tag].is_attacking
        assert workers[gatherer.tag].is_gathering or workers[gatherer.tag].is_returning
        assert workers[mover.tag].order_target == centre
        workers[mover.tag].stop()
        await self._advance_steps(4)
        assert self.workers.by_tag(mover.tag).is_idle

    async def _check_queues(self):
        hall, worker = self.townhalls.first, self.workers.first
        hall.train(UnitTypeId.SCV)
        near = self.start_location.towards(self.game_info.map_center, 6)
        worker.move(near)
        worker.move(self.start_location.towards(near, 4), queue=True)
        hall(AbilityId.RALLY_COMMANDCENTER, near)
        await self._advance_steps(4)
        assert self.already_pending(UnitTypeId.SCV) == 1
        assert len(self.workers.by_tag(worker.tag).orders) == 2
        (rally,) = self.townhalls.first.rally_targets
        assert rally.point.distance_to_point2(near) < 0.1


if __name__ == "__main__":
    play(ActionsBot, sys.argv[1])
