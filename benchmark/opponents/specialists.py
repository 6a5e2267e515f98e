"""Scripted opponents that each follow one style: rush, economy or turtle.

In: observations, as trained agents get them. Out: one action per observation, the first in a
list of priorities that applies. Their armies cost minerals only. They are not strong, but they
play in ways that a ranking should include.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starmill.benchmark.opponents import battlefield, building_sites, random_agent
from starmill.benchmark.opponents.styles import HALL_COST, RACE_UNITS, Style
from starmill.schema import specs, vocab
from starmill.schema.settings import ConverterSettings

Arrays = dict[str, NDArray[Any]]
Ints = NDArray[np.int64]


class Specialist:
    """Plays any race in one style; an `Agent`."""

    def __init__(self, settings: ConverterSettings, style: Style) -> None:
        self._settings = settings
        self._specs = specs.action_specs(settings)
        self._resolution = specs.raw_settings(settings).resolution[0]
        self._style = style
        self.reset(0, "terran")

    @property
    def settings(self) -> ConverterSettings:
        """Returns the settings of the observations that it expects."""
        return self._settings

    def reset(self, seed: int, race: str) -> None:
        """Begins a game."""
        self._generator = np.random.default_rng(seed)
        self._race = race
        self._units = RACE_UNITS[race]
        self._attacking = False
        self._start: NDArray[np.float64] | None = None
        self._visited: list[NDArray[np.float64]] = []
        self._tried: dict[str, int] = {}
        self._sites: list[NDArray[np.float64]] = []
        self._settler = (
            -1
        )  # tag of the worker that builds the next town hall; -1 for none
        self._attempts = 0  # failed attempts at the next town hall

    def act(self, observation: Arrays) -> Arrays:
        """Returns the action of the highest priority that applies, or a short wait."""
        self._look(observation)
        for priority in self._priorities():
            action = priority()
            if action is not None:
                return action
        return random_agent.no_op(self._specs, delay=12)

    def _priorities(self) -> list[Callable[[], Arrays | None]]:
        return [
            self._gather,
            self._spread_workers,
            self._defend,
            self._add_supply,
            self._train_workers,
            self._add_production,
            self._add_base,
            self._add_defence,
            self._train_soldiers,
            self._attack,
        ]

    def _look(self, observation: Arrays) -> None:
        self._field = battlefield.Battlefield(observation, self._settings)
        halls = self._field.own(*self._units.halls)
        if self._start is None and len(halls):
            self._start = self._field.places(halls)[0]

    def _command(
        self,
        function: str,
        rows: Ints,
        *,
        place: NDArray[np.float64] | None = None,
        target: int = 0,
        delay: int = 4,
    ) -> Arrays:
        action = random_agent.no_op(self._specs, delay=delay)
        commanded = rows[: len(action["unit_tags"])]
        action["function"] = np.asarray(vocab.function_named(function).id, np.int32)
        action["unit_tags"][: len(commanded)] = commanded
        action["target_unit_tag"] = np.asarray(target, np.int32)
        if place is not None:
            x, y = np.clip(place, 0, self._resolution - 1).astype(int)
            action["world"] = np.asarray(y * self._resolution + x, np.int32)
        return action

    def _is_due(self, purpose: str, every_loops: int) -> bool:
        """Returns whether enough loops have passed since the last attempt, and notes this one."""
        if self._field.loop - self._tried.get(purpose, -every_loops) < every_loops:
            return False
        self._tried[purpose] = self._field.loop
        return True

    def _gather(self) -> Arrays | None:
        idle = self._without_settler(
            self._field.idle(self._field.own(self._units.worker))
        )
        fields = self._field.mineral_fields()
        halls = self._field.own(*self._units.halls)
        if not len(idle) or not len(fields) or not len(halls):
            return None
        home = self._field.places(halls)[np.argmax(self._room(halls))]
        return self._gather_at(home, fields, idle[:1])

    def _gather_at(
        self, home: NDArray[np.float64], fields: Ints, workers: Ints
    ) -> Arrays:
        near = np.linalg.norm(self._field.places(fields) - home, axis=1)
        nearest = fields[np.argsort(near, kind="stable")[:8]]
        target = int(nearest[int(self._generator.integers(len(nearest)))])
        return self._command("Harvest_Gather_unit", workers, target=target)

    def _room(self, halls: Ints) -> NDArray[np.int32]:
        """Returns how many more workers each town hall can use; negative if it has too many."""
        ideal = self._field.column("ideal_harvesters", halls)
        return np.asarray(ideal - self._field.column("assigned_harvesters", halls))

    def _spread_workers(self) -> Arrays | None:
        """Sends workers from a base with too many to one with too few."""
        halls = self._field.own(*self._units.halls)
        if len(halls) < 2:
            return None
        room, places = self._room(halls), self._field.places(halls)
        moved = min(int(room.max()), -int(room.min()))
        fields = self._field.mineral_fields()
        # The walk is not worth it for fewer than four.
        if moved < 4 or not len(fields) or not self._is_due("spread", 224):
            return None
        workers = self._builders()
        gaps = np.linalg.norm(
            self._field.places(workers) - places[np.argmin(room)], axis=1
        )
        workers = workers[gaps < 14 * self._field.scale][:moved]
        home = places[np.argmax(room)]
        return self._gather_at(home, fields, workers) if len(workers) else None

    def _soldiers(self) -> Ints:
        return self._field.own(self._units.soldier)

    def _defend(self) -> Arrays | None:
        soldiers, threat = self._soldiers(), self._threat()
        if threat is None or not len(soldiers) or not self._is_due("defend", 45):
            return None
        return self._command("Attack_pt", soldiers, place=threat)

    def _threat(self) -> NDArray[np.float64] | None:
        """Returns the place of the enemy nearest to a town hall; None if all are far away."""
        halls = self._field.own(*self._units.halls, ready=False)
        places = self._field.places(self._field.enemies())
        if not len(places) or not len(halls):
            return None
        gaps = np.linalg.norm(places[:, None] - self._field.places(halls)[None], axis=2)
        if gaps.min() >= 22 * self._field.scale:
            return None
        return np.asarray(places[np.argmin(gaps.min(1))])

    def _add_supply(self) -> Arrays | None:
        wanted = 3 + 2 * min(len(self._field.own(self._units.soldiers_from)), 6)
        function = self._units.functions["supply"]
        if (
            self._field.food_left >= wanted
            or self._field.food_cap >= 200
            or self._field.minerals < 100
        ):
            return None
        unfinished = len(self._field.own(self._units.supply, ready=False)) - len(
            self._field.own(self._units.supply)
        )
        under_way = unfinished + self._field.count_ordered(function)
        if under_way >= (1 if self._field.food_cap < 60 else 2):
            return None
        if function.endswith("_quick"):
            larva = self._field.idle(self._field.own(self._units.soldiers_from))
            if len(larva) and self._is_due("supply", 60):
                return self._command(function, larva[:1])
            return None
        return self._build("supply", radius=1.0)

    def _train_workers(self) -> Arrays | None:
        have = len(self._field.own(self._units.worker))
        function = self._units.functions["worker"]
        if have + self._field.count_ordered(function) >= self._style.workers:
            return None
        trainers = self._field.idle(self._field.own(self._units.workers_from))
        if not len(trainers) or self._field.minerals < 50 or self._field.food_left < 1:
            return None
        if self._race == "zerg" and have >= 14 and not self._has_production():
            return None  # the spawning pool comes first
        return self._command(function, trainers[:1])

    def _has_production(self) -> bool:
        return len(self._field.own(self._units.production, ready=False)) > 0

    def _add_production(self) -> Arrays | None:
        function = self._units.functions["production"]
        have = len(self._field.own(self._units.production, ready=False))
        wanted = min(self._style.production, self._units.most_production)
        workers = len(self._field.own(self._units.worker))
        # One building for every few workers: they cannot pay for more.
        wanted = min(wanted, 1 + max(0, workers - 10) // 3)
        if have + self._field.count_ordered(function) >= wanted:
            return None
        if self._field.minerals < self._units.production_cost + self._savings():
            return None
        if self._race != "zerg" and not len(self._field.own(self._units.supply)):
            return None
        return self._build("production", radius=2.0)

    def _lacks_base(self) -> bool:
        """Returns whether it is time to build a town hall."""
        halls = len(self._field.own(*self._units.halls, ready=False))
        if halls >= self._style.bases or not self._has_production():
            return False
        # A base can use 16 workers on its minerals.
        return len(self._field.own(self._units.worker)) >= 16 * halls

    def _savings(self) -> int:
        """Returns the minerals to save for the next town hall; 0 while under attack."""
        lacks = len(self._field.own(*self._units.halls)) and self._lacks_base()
        if not lacks or self._threat() is not None or not self._base_places():
            return 0
        return HALL_COST[self._race]

    def _add_base(self) -> Arrays | None:
        function = self._units.functions["hall"]
        if not self._lacks_base():
            self._settler, self._attempts = -1, 0
            return None
        missing = HALL_COST[self._race] - self._field.minerals
        places = self._base_places()
        # The workers earn the missing minerals during the walk.
        if missing > 100 or self._field.count_ordered(function) or not places:
            return None
        # After some failed attempts, try the next place: something unseen is in the way.
        place = places[self._attempts // 4 % len(places)]
        settler = self._settlers(place)
        if not len(settler):
            return None
        if not self._field.ground().is_explored(place):
            # The game refuses buildings on ground that the player never saw.
            again = self._is_due("explore", 112)
            return self._command("Move_pt", settler, place=place) if again else None
        if missing > 0 or not self._is_due("hall", 220):
            return None
        self._attempts += 1
        return self._command(function, settler, place=place, delay=8)

    def _settlers(self, place: NDArray[np.float64]) -> Ints:
        """Returns the worker that builds the next town hall; it stays the same while it lives."""
        workers = self._field.own(self._units.worker)
        settlers = workers[self._field.column("tag", workers) == self._settler]
        if not len(settlers):
            free = self._builders()
            gaps = np.linalg.norm(self._field.places(free) - place, axis=1)
            settlers = free[np.argsort(gaps, kind="stable")[:1]]
            self._settler = (
                int(self._field.column("tag", settlers)[0]) if len(settlers) else -1
            )
            self._attempts += 1
        return settlers

    def _without_settler(self, rows: Ints) -> Ints:
        return rows[self._field.column("tag", rows) != self._settler]

    def _add_defence(self) -> Arrays | None:
        plan = self._units
        if not plan.defence or not self._has_production():
            return None
        if len(self._field.own(plan.defence, ready=False)) >= self._style.defences:
            return None
        if not len(self._field.own(plan.defence_needs, ready=False)):
            return (
                self._build("defence_needs", radius=2.0)
                if self._field.minerals > 150
                else None
            )
        if not len(self._field.own(plan.defence_needs)) or self._field.minerals < 150:
            return None
        return self._build("defence", radius=1.0)

    def _train_soldiers(self) -> Arrays | None:
        if (
            not len(self._field.own(self._units.production))
            or self._field.food_left < 1
        ):
            return None
        if self._field.minerals < self._units.soldier_cost + self._savings():
            return None
        trainers = self._field.own(self._units.soldiers_from)
        trainers = trainers[self._field.column("order_length", trainers) < 2]
        if not len(trainers):
            return None
        # A random one: the game may refuse every order of the first.
        trainer = self._generator.choice(trainers, 1)
        return self._command(self._units.functions["soldier"], trainer)

    def _attack(self) -> Arrays | None:
        soldiers = self._soldiers()
        if len(soldiers) >= self._style.attack_at:
            self._attacking = True
        elif len(soldiers) < self._style.attack_at / 3:
            self._attacking = False
        idle = self._field.idle(soldiers)
        if not self._attacking or not len(idle) or not self._is_due("attack", 50):
            return None
        place = self._target(self._field.places(soldiers))
        return None if place is None else self._command("Attack_pt", idle, place=place)

    def _target(self, army: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Returns the nearest visible enemy, or the next place where one may be."""
        centre = np.median(army, axis=0)
        enemies = self._field.enemies()
        if len(enemies):
            places = self._field.places(enemies)
            return np.asarray(
                places[np.argmin(np.linalg.norm(places - centre, axis=1))]
            )
        suspects = self._suspects()
        for place in suspects:
            if np.linalg.norm(army - place, axis=1).min() < 6 * self._field.scale:
                self._visited.append(place)
        left = [
            place
            for place in suspects
            if all(np.linalg.norm(place - seen) > 1 for seen in self._visited)
        ]
        if not left:
            self._visited.clear()
        return left[0] if left else (suspects[0] if suspects else None)

    def _suspects(self) -> list[NDArray[np.float64]]:
        """Returns where the enemy may be: opposite the own start, then near mineral fields."""
        if self._start is None:
            return []
        rows, columns = np.nonzero(self._field.pathable)
        if not len(rows):
            return []
        ratio = self._resolution / self._field.pathable.shape[0]
        centre = np.array([columns.mean(), rows.mean()]) * ratio + ratio / 2
        opposite = 2 * centre - self._start
        fields = self._field.places(self._field.mineral_fields())
        order = np.argsort(np.linalg.norm(fields - opposite, axis=1), kind="stable")
        return [opposite, *fields[order[::8]]]

    def _builders(self) -> Ints:
        """Returns the workers that have no building to build."""
        workers = self._field.own(self._units.worker)
        building = [
            vocab.function_named(name).id
            for key, name in self._units.functions.items()
            if key in ("supply", "production", "hall", "defence", "defence_needs")
        ]
        free = ~np.isin(self._field.column("order_id_0", workers), building)
        return self._without_settler(workers[free])

    def _build(self, purpose: str, radius: float) -> Arrays | None:
        builders = self._builders()
        if not len(builders) or not self._is_due(purpose, 40):
            return None
        place = self._spot(radius, powered=purpose != "supply")
        if place is None:
            return None
        gaps = np.linalg.norm(self._field.places(builders) - place, axis=1)
        nearest = builders[[int(np.argmin(gaps))]]
        return self._command(self._units.functions[purpose], nearest, place=place)

    def _spot(self, radius: float, *, powered: bool) -> NDArray[np.float64] | None:
        """Returns a random free place near home for a building of this half width."""
        halls = self._field.own(*self._units.halls)
        if not len(halls):
            return None
        anchors, reach = self._field.places(halls), (6.5, 15.0)
        if powered and self._units.near == "pylon":
            pylons = self._field.own(self._units.supply)
            if not len(pylons):
                return None
            anchors, reach = self._field.places(pylons), (2.0, 6.0)
        if self._units.near == "creep":
            reach = (5.5, 10.0)
        anchor = anchors[int(self._generator.integers(len(anchors)))]
        taken = self._field.places(np.arange(self._field.unit_count))
        sizes = self._field.column("radius", np.arange(self._field.unit_count)).astype(
            np.float64
        )
        fields = np.concatenate([self._field.mineral_fields(), self._field.geysers()])
        clear = self._field.places(fields)
        hall, ground = self._field.places(halls), self._field.ground()
        for _ in range(60):
            angle, far = self._generator.random(2)
            far = (reach[0] + far * (reach[1] - reach[0])) * self._field.scale
            place = np.rint(
                anchor
                + far * np.array([np.cos(2 * np.pi * angle), np.sin(2 * np.pi * angle)])
            )
            if not ground.is_free(place, radius, on_creep=self._units.near == "creep"):
                continue
            gaps = np.linalg.norm(taken - place, axis=1) / self._field.scale
            if (gaps < radius + np.minimum(sizes, 3.0) + 0.6).any():
                continue
            # Workers walk between a hall and its minerals, so that space stays free.
            near_field = len(clear) and np.linalg.norm(clear - place, axis=1).min() < (
                (radius + 2.5) * self._field.scale
            )
            near_hall = (
                np.linalg.norm(hall - place, axis=1).min() < 4.5 * self._field.scale
            )
            if not near_field and not near_hall:
                return np.asarray(place)
        return None

    def _base_places(self) -> list[NDArray[np.float64]]:
        """Returns where a town hall could stand, nearest first; refreshed every five seconds."""
        if self._start is None or not self._is_due("sites", 112):
            return self._sites
        halls = self._field.own(*self._units.halls, ready=False)
        # Without any hall, the first free base is the old home.
        self._sites = building_sites.town_hall_places(
            self._field.places(self._field.mineral_fields()),
            self._field.places(self._field.geysers()),
            self._field.places(np.concatenate([halls, self._field.enemies()])),
            self._field.ground(),
            self._start,
        )
        return self._sites
