"""Scripted opponents, each with one idea: rush, economy, turtle.

They play through the same arrays as trained agents, so they can meet anybody. One action per
observation, chosen by priority; the armies need minerals only. They are yardsticks of a kind
of play that a ranking should include, not strong players.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from starmill.benchmark.opponents import building_sites, random_agent
from starmill.benchmark.opponents.styles import HALL_COST, PLANS, Style
from starmill.schema import specs, vocab
from starmill.schema.settings import ConverterSettings

Arrays = dict[str, NDArray[Any]]
Ints = NDArray[np.int64]

_MINERALS = tuple(
    dense
    for dense, name in enumerate(vocab.names("unit_types"))
    if "MineralField" in name
)
_GEYSERS = tuple(
    dense
    for dense, name in enumerate(vocab.names("unit_types"))
    if "VespeneGeyser" in name
)


class Specialist:
    """Plays any race in one style."""

    def __init__(self, settings: ConverterSettings, style: Style) -> None:
        self._settings = settings
        self._specs = specs.action_specs(settings)
        self._resolution = specs.raw_settings(settings).resolution[0]
        self._style = style
        self.reset(0, "terran")

    @property
    def settings(self) -> ConverterSettings:
        """Returns the settings whose observations it takes."""
        return self._settings

    def reset(self, seed: int, race: str) -> None:
        """Begins a game."""
        self._generator = np.random.default_rng(seed)
        self._race = race
        self._plan = PLANS[race]
        self._attacking = False
        self._start: NDArray[np.float64] | None = None
        self._visited: list[NDArray[np.float64]] = []
        self._tried: dict[str, int] = {}
        self._sites: list[NDArray[np.float64]] = []
        self._settler = -1  # tag of the worker that is to build a town hall
        self._attempts = 0  # workers sent to build the next hall, and their orders to

    def act(self, observation: Arrays) -> Arrays:
        """Returns the first action that anything calls for; else waits a little."""
        self._look(observation)
        for choose in self._priorities():
            action = choose()
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

    # What is seen

    def _look(self, observation: Arrays) -> None:
        units = observation["raw_units"]
        self._observation = observation
        self._units = units[units[:, random_agent.COLUMN["unit_type"]] > 0]
        self._loop = int(observation["game_loop"])
        player = dict(
            zip(specs.PLAYER_COLUMNS, observation["player"].tolist(), strict=True)
        )
        self._minerals = int(player["minerals"])
        self._food_left = int(player["food_cap"]) - int(player["food_used"])
        self._food_cap = int(player["food_cap"])
        width = self._settings.camera_width_world_units
        # Grid cells per world unit: the camera's width is known in both.
        self._scale = float(observation["camera_size"][0]) / width
        halls = self._mine(*self._plan.halls)
        if self._start is None and len(halls):
            self._start = self._places(halls)[0]

    def _column(self, name: str, rows: Ints) -> NDArray[np.int32]:
        return np.asarray(self._units[rows, random_agent.COLUMN[name]])

    def _mine(self, *names: str, ready: bool = True) -> Ints:
        """Returns rows of own units of these types; `ready` leaves unfinished ones out."""
        types = [vocab.ids("unit_types")[name] for name in names]
        every = np.arange(len(self._units))
        kept = self._column("alliance", every) == random_agent.OWN
        kept &= np.isin(self._column("unit_type", every), types)
        if ready:
            kept &= self._column("build_progress", every) >= 100
        return np.flatnonzero(kept)

    def _places(self, rows: Ints) -> NDArray[np.float64]:
        """Returns [N, 2] grid positions, x and y."""
        return np.stack(
            [self._column("x", rows), self._column("y", rows)], axis=1
        ).astype(np.float64)

    def _enemies(self) -> Ints:
        every = np.arange(len(self._units))
        return np.flatnonzero(self._column("alliance", every) == random_agent.ENEMY)

    def _neutral(self, types: tuple[int, ...]) -> Ints:
        every = np.arange(len(self._units))
        kept = self._column("alliance", every) == random_agent.NEUTRAL
        return np.flatnonzero(kept & np.isin(self._column("unit_type", every), types))

    def _idle(self, rows: Ints) -> Ints:
        return rows[self._column("order_length", rows) == 0]

    def _ordered(self, function: str) -> int:
        """Returns how many own units have this order, or as the first of their queue."""
        wanted = vocab.function_named(function).id
        every = np.arange(len(self._units))
        orders = self._column("order_id_0", every)
        own = self._column("alliance", every) == random_agent.OWN
        return int((own & (orders == wanted)).sum())

    # What is done

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
        chosen = rows[: len(action["unit_tags"])]
        action["function"] = np.asarray(vocab.function_named(function).id, np.int32)
        action["unit_tags"][: len(chosen)] = chosen
        action["target_unit_tag"] = np.asarray(target, np.int32)
        if place is not None:
            x, y = np.clip(place, 0, self._resolution - 1).astype(int)
            action["world"] = np.asarray(y * self._resolution + x, np.int32)
        return action

    def _again(self, what: str, every_loops: int) -> bool:
        """Returns whether it is time to try something again, and notes that it is tried."""
        if self._loop - self._tried.get(what, -every_loops) < every_loops:
            return False
        self._tried[what] = self._loop
        return True

    def _gather(self) -> Arrays | None:
        idle = self._without_settler(self._idle(self._mine(self._plan.worker)))
        fields = self._neutral(_MINERALS)
        halls = self._mine(*self._plan.halls)
        if not len(idle) or not len(fields) or not len(halls):
            return None
        home = self._places(halls)[np.argmax(self._room(halls))]
        return self._gather_at(home, fields, idle[:1])

    def _gather_at(
        self, home: NDArray[np.float64], fields: Ints, workers: Ints
    ) -> Arrays:
        near = np.linalg.norm(self._places(fields) - home, axis=1)
        nearest = fields[np.argsort(near, kind="stable")[:8]]
        target = int(nearest[int(self._generator.integers(len(nearest)))])
        return self._command("Harvest_Gather_unit", workers, target=target)

    def _room(self, halls: Ints) -> NDArray[np.int32]:
        """Returns how many more workers each town hall can use; negative: too many."""
        ideal = self._column("ideal_harvesters", halls)
        return np.asarray(ideal - self._column("assigned_harvesters", halls))

    def _spread_workers(self) -> Arrays | None:
        """Sends workers from a base that has too many to one that lacks some."""
        halls = self._mine(*self._plan.halls)
        if len(halls) < 2:
            return None
        room, places = self._room(halls), self._places(halls)
        moved = min(int(room.max()), -int(room.min()))
        fields = self._neutral(_MINERALS)
        # Fewer than four are not worth the walk.
        if moved < 4 or not len(fields) or not self._again("spread", 224):
            return None
        workers = self._builders()
        gaps = np.linalg.norm(self._places(workers) - places[np.argmin(room)], axis=1)
        workers = workers[gaps < 14 * self._scale][:moved]
        home = places[np.argmax(room)]
        return self._gather_at(home, fields, workers) if len(workers) else None

    def _soldiers(self) -> Ints:
        return self._mine(self._plan.soldier)

    def _defend(self) -> Arrays | None:
        soldiers, threat = self._soldiers(), self._threat()
        if threat is None or not len(soldiers) or not self._again("defend", 45):
            return None
        return self._command("Attack_pt", soldiers, place=threat)

    def _threat(self) -> NDArray[np.float64] | None:
        """Returns where the enemy is who is nearest to a town hall, None if far away."""
        halls = self._mine(*self._plan.halls, ready=False)
        places = self._places(self._enemies())
        if not len(places) or not len(halls):
            return None
        gaps = np.linalg.norm(places[:, None] - self._places(halls)[None], axis=2)
        if gaps.min() >= 22 * self._scale:
            return None
        return np.asarray(places[np.argmin(gaps.min(1))])

    def _add_supply(self) -> Arrays | None:
        wanted = 3 + 2 * min(len(self._mine(self._plan.soldiers_from)), 6)
        function = self._plan.functions["supply"]
        if self._food_left >= wanted or self._food_cap >= 200 or self._minerals < 100:
            return None
        unfinished = len(self._mine(self._plan.supply, ready=False)) - len(
            self._mine(self._plan.supply)
        )
        under_way = unfinished + self._ordered(function)
        if under_way >= (1 if self._food_cap < 60 else 2):
            return None
        if function.endswith("_quick"):
            larva = self._idle(self._mine(self._plan.soldiers_from))
            if len(larva) and self._again("supply", 60):
                return self._command(function, larva[:1])
            return None
        return self._build("supply", radius=1.0)

    def _train_workers(self) -> Arrays | None:
        have = len(self._mine(self._plan.worker))
        function = self._plan.functions["worker"]
        if have + self._ordered(function) >= self._style.workers:
            return None
        trainers = self._idle(self._mine(self._plan.workers_from))
        if not len(trainers) or self._minerals < 50 or self._food_left < 1:
            return None
        if self._race == "zerg" and have >= 14 and not self._has_production():
            return None  # the pool comes first
        return self._command(function, trainers[:1])

    def _has_production(self) -> bool:
        return len(self._mine(self._plan.production, ready=False)) > 0

    def _add_production(self) -> Arrays | None:
        function = self._plan.functions["production"]
        have = len(self._mine(self._plan.production, ready=False))
        wanted = min(self._style.production, self._plan.most_production)
        workers = len(self._mine(self._plan.worker))
        # One more building for every few workers: more could not be paid for.
        wanted = min(wanted, 1 + max(0, workers - 10) // 3)
        if have + self._ordered(function) >= wanted:
            return None
        if self._minerals < self._plan.production_cost + self._savings():
            return None
        if self._race != "zerg" and not len(self._mine(self._plan.supply)):
            return None
        return self._build("production", radius=2.0)

    def _lacks_base(self) -> bool:
        """Returns whether it is time for another town hall, or for one at all."""
        halls = len(self._mine(*self._plan.halls, ready=False))
        if halls >= self._style.bases or not self._has_production():
            return False
        # Each base can use this many workers on its minerals.
        return len(self._mine(self._plan.worker)) >= 16 * halls

    def _savings(self) -> int:
        """Returns the minerals to keep for a further town hall; none when under attack."""
        lacks = len(self._mine(*self._plan.halls)) and self._lacks_base()
        if not lacks or self._threat() is not None or not self._base_places():
            return 0
        return HALL_COST[self._race]

    def _add_base(self) -> Arrays | None:
        function = self._plan.functions["hall"]
        if not self._lacks_base():
            self._settler, self._attempts = -1, 0
            return None
        missing = HALL_COST[self._race] - self._minerals
        places = self._base_places()
        # The walk there takes long enough to earn the rest.
        if missing > 100 or self._ordered(function) or not places:
            return None
        # The next best after some vain attempts: something unseen is in the way.
        place = places[self._attempts // 4 % len(places)]
        settler = self._settlers(place)
        if not len(settler):
            return None
        if not self._ground().is_explored(place):
            # The game lets nobody build on ground that was never seen.
            again = self._again("explore", 112)
            return self._command("Move_pt", settler, place=place) if again else None
        if missing > 0 or not self._again("hall", 220):
            return None
        self._attempts += 1
        return self._command(function, settler, place=place, delay=8)

    def _settlers(self, place: NDArray[np.float64]) -> Ints:
        """Returns the worker that is to build a town hall: always the same while it lives."""
        workers = self._mine(self._plan.worker)
        chosen = workers[self._column("tag", workers) == self._settler]
        if not len(chosen):
            free = self._builders()
            gaps = np.linalg.norm(self._places(free) - place, axis=1)
            chosen = free[np.argsort(gaps, kind="stable")[:1]]
            self._settler = int(self._column("tag", chosen)[0]) if len(chosen) else -1
            self._attempts += 1
        return chosen

    def _without_settler(self, rows: Ints) -> Ints:
        return rows[self._column("tag", rows) != self._settler]

    def _add_defence(self) -> Arrays | None:
        plan = self._plan
        if not plan.defence or not self._has_production():
            return None
        if len(self._mine(plan.defence, ready=False)) >= self._style.defences:
            return None
        if not len(self._mine(plan.defence_needs, ready=False)):
            return (
                self._build("defence_needs", radius=2.0)
                if self._minerals > 150
                else None
            )
        if not len(self._mine(plan.defence_needs)) or self._minerals < 150:
            return None
        return self._build("defence", radius=1.0)

    def _train_soldiers(self) -> Arrays | None:
        if not len(self._mine(self._plan.production)) or self._food_left < 1:
            return None
        if self._minerals < self._plan.soldier_cost + self._savings():
            return None
        trainers = self._mine(self._plan.soldiers_from)
        trainers = trainers[self._column("order_length", trainers) < 2]
        if not len(trainers):
            return None
        # Any of them: the first may be one whose orders the game keeps refusing.
        chosen = self._generator.choice(trainers, 1)
        return self._command(self._plan.functions["soldier"], chosen)

    def _attack(self) -> Arrays | None:
        soldiers = self._soldiers()
        if len(soldiers) >= self._style.attack_at:
            self._attacking = True
        elif len(soldiers) < self._style.attack_at / 3:
            self._attacking = False
        idle = self._idle(soldiers)
        if not self._attacking or not len(idle) or not self._again("attack", 50):
            return None
        place = self._target(self._places(soldiers))
        return None if place is None else self._command("Attack_pt", idle, place=place)

    # Where

    def _target(self, army: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Returns the nearest enemy seen, else the next place where one may be."""
        centre = np.median(army, axis=0)
        enemies = self._enemies()
        if len(enemies):
            places = self._places(enemies)
            return np.asarray(
                places[np.argmin(np.linalg.norm(places - centre, axis=1))]
            )
        suspects = self._suspects()
        for place in suspects:
            if np.linalg.norm(army - place, axis=1).min() < 6 * self._scale:
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
        """Returns where the enemy may live: opposite its own start, then by every field."""
        if self._start is None:
            return []
        rows, columns = np.nonzero(self._observation["minimap_pathable"])
        if not len(rows):
            return []
        ratio = self._resolution / self._observation["minimap_pathable"].shape[0]
        centre = np.array([columns.mean(), rows.mean()]) * ratio + ratio / 2
        opposite = 2 * centre - self._start
        fields = self._places(self._neutral(_MINERALS))
        order = np.argsort(np.linalg.norm(fields - opposite, axis=1), kind="stable")
        return [opposite, *fields[order[::8]]]

    def _builders(self) -> Ints:
        """Returns workers fit to build, those with one order (gathering) first."""
        workers = self._mine(self._plan.worker)
        building = [
            vocab.function_named(name).id
            for key, name in self._plan.functions.items()
            if key in ("supply", "production", "hall", "defence", "defence_needs")
        ]
        free = ~np.isin(self._column("order_id_0", workers), building)
        return self._without_settler(workers[free])

    def _build(self, what: str, radius: float) -> Arrays | None:
        builders = self._builders()
        if not len(builders) or not self._again(what, 40):
            return None
        place = self._spot(radius, powered=what != "supply")
        if place is None:
            return None
        gaps = np.linalg.norm(self._places(builders) - place, axis=1)
        nearest = builders[[int(np.argmin(gaps))]]
        return self._command(self._plan.functions[what], nearest, place=place)

    def _spot(self, radius: float, *, powered: bool) -> NDArray[np.float64] | None:
        """Returns a random free place near home for a building of that half width."""
        halls = self._mine(*self._plan.halls)
        if not len(halls):
            return None
        anchors, reach = self._places(halls), (6.5, 15.0)
        if powered and self._plan.near == "pylon":
            pylons = self._mine(self._plan.supply)
            if not len(pylons):
                return None
            anchors, reach = self._places(pylons), (2.0, 6.0)
        if self._plan.near == "creep":
            reach = (5.5, 10.0)
        anchor = anchors[int(self._generator.integers(len(anchors)))]
        taken = self._places(np.arange(len(self._units)))
        sizes = self._column("radius", np.arange(len(self._units))).astype(np.float64)
        fields = np.concatenate([self._neutral(_MINERALS), self._neutral(_GEYSERS)])
        clear = self._places(fields)
        hall, ground = self._places(halls), self._ground()
        for _ in range(60):
            angle, far = self._generator.random(2)
            far = (reach[0] + far * (reach[1] - reach[0])) * self._scale
            place = np.rint(
                anchor
                + far * np.array([np.cos(2 * np.pi * angle), np.sin(2 * np.pi * angle)])
            )
            if not ground.is_free(place, radius, on_creep=self._plan.near == "creep"):
                continue
            gaps = np.linalg.norm(taken - place, axis=1) / self._scale
            if (gaps < radius + np.minimum(sizes, 3.0) + 0.6).any():
                continue
            # Not between a hall and its minerals: workers walk there.
            near_field = len(clear) and np.linalg.norm(clear - place, axis=1).min() < (
                (radius + 2.5) * self._scale
            )
            near_hall = np.linalg.norm(hall - place, axis=1).min() < 4.5 * self._scale
            if not near_field and not near_hall:
                return np.asarray(place)
        return None

    def _ground(self) -> building_sites.Ground:
        seen = self._observation
        return building_sites.Ground(
            buildable=seen["minimap_buildable"] > 0,
            pathable=seen["minimap_pathable"] > 0,
            creep=seen["minimap_creep"] > 0,
            # 1 seen before, 2 seen now; 0 and 3 are hidden.
            explored=np.isin(seen["minimap_visibility_map"], (1, 2)),
            ratio=seen["minimap_buildable"].shape[0] / self._resolution,
            scale=self._scale,
        )

    def _base_places(self) -> list[NDArray[np.float64]]:
        """Returns where a town hall could stand, the nearest first; looks now and then."""
        if self._start is None or not self._again("sites", 112):
            return self._sites
        halls = self._mine(*self._plan.halls, ready=False)
        # Without a hall left, the first free base is home again.
        self._sites = building_sites.town_hall_places(
            self._places(self._neutral(_MINERALS)),
            self._places(self._neutral(_GEYSERS)),
            self._places(np.concatenate([halls, self._enemies()])),
            self._ground(),
            self._start,
        )
        return self._sites
