"""How a bot uses its army: gathering, defending, attacking, and when to give up.

In: a situation and the army's `Front`, which remembers what the army is doing. Out: intents. A
bot judges by what its player may know: enemy units in sight, enemy buildings it remembers, and
the start location of the enemy. Must not know: what is built.
"""

import dataclasses
import math

import numpy as np
from numpy.typing import NDArray

from starmill.engines.skirmish.players import macro
from starmill.engines.skirmish.players.dice import Dice
from starmill.engines.skirmish.players.intents import (
    ABILITY_ATTACK,
    ABILITY_MOVE,
    GROUP_ARMY,
    Intent,
)
from starmill.engines.skirmish.players.situation import Situation, distance, mean
from starmill.engines.skirmish.simulation import ids

HOME_RADIUS = 24.0  # enemies this near to a town hall are defended against
IMPATIENT_LOOP = 9000  # from here on, smaller armies attack
_DEFENCE_LOOPS = 40  # between two orders to defend
_DEFENCE_GAP = 9.0  # cells by which enemies must have moved for an early order
_SQUADS = 3  # groups that search for the enemy's last buildings at once
_VISIT_LOOPS = 1800  # after so long, a base is searched again
_NEVER_VISITED = -_VISIT_LOOPS
_FOLLOW_LOOPS = 60  # between two orders of an attack
_FOLLOWER_FOOD = 10.0  # fighters of this supply without orders are sent after the army
_FIGHT_RADIUS = 16.0  # around the army's middle, within which a fight is judged
_SKIRMISH = 12.0  # halves of supply: fewer enemies are no reason to retreat
_TARGET_GAP = 6.0  # a target is gone when no building is known this near to it
_STRAGGLERS = 4  # fighters away from the rally point that are worth an order
_NEVER = -1000  # loop of an order that was not given
_FULL_SUPPLY = 185
_GATHER_RADIUS_SQUARED = 90.0


@dataclasses.dataclass
class Front:
    """What the bot's army is doing.

    Attributes:
        wave: supply of the army at which the next attack starts.
        control: how well the army is led, 0 to 1.
        human: whether the army is led as people lead it. They order the whole army and only when
            something has changed, and they let it walk on while it is spread out. Computers keep
            the army together by orders to attack its own middle.
        start: (x, y) of the player's start location.
        enemy_start: (x, y) of the enemy's start location.
        attacking: whether the army is on the attack.
        target: (x, y) that it attacks; meaningless unless attacking.
        last_order: loop of the last order to the whole army.
        searched: how many places it has searched for enemies.
        began_food: supply of the army when the attack began; meaningless unless attacking.
        defended: (x, y) of the enemies that it was last sent against at home.
        visited: loop at which a squad was last sent to a base, by the base's index on the map.
        balance: value killed less value lost, averaged so that old fights fade.
        peak_food: the most supply ever in use.
    """

    wave: float
    control: float
    human: bool
    start: tuple[float, float]
    enemy_start: tuple[float, float]
    attacking: bool = False
    target: tuple[float, float] = (0.0, 0.0)
    last_order: int = _NEVER
    searched: int = 0
    began_food: float = 0.0
    defended: tuple[float, float] = (0.0, 0.0)
    visited: dict[int, int] = dataclasses.field(default_factory=dict)
    balance: int = 0
    peak_food: float = 0.0


def rally_point(situation: Situation, front: Front) -> tuple[float, float]:
    """Returns where the army waits: in front of the outermost base, towards the enemy."""
    if len(situation.halls) == 0:
        return front.start
    enemy_x, enemy_y = front.enemy_start
    hall = situation.nearest(situation.halls, enemy_x, enemy_y)
    x, y = situation.point(hall)
    length = max(distance(enemy_x - x, enemy_y - y), 1.0)
    return x + (enemy_x - x) / length * 7.0, y + (enemy_y - y) / length * 7.0


def threat(situation: Situation) -> tuple[float, float, float] | None:
    """Returns x, y and the supply of enemies near own bases; None if there are none."""
    enemies = situation.enemies
    if len(enemies) == 0 or len(situation.halls) == 0:
        return None
    hall_x, hall_y = situation.x[situation.halls], situation.y[situation.halls]
    dx = enemies["x"][:, None] - hall_x[None, :]
    dy = enemies["y"][:, None] - hall_y[None, :]
    near = (dx * dx + dy * dy).min(axis=1) < HOME_RADIUS * HOME_RADIUS
    rule = situation.unit_rules[enemies["unit_type"]]
    near &= (rule["ground_damage"] > 0) | (rule["structure"] == 0)
    near &= rule["provides"] == 0  # overlords only look
    if not np.any(near):
        return None
    first = int(np.flatnonzero(near)[0])
    strength = float(rule["food_halves"][near].sum()) / 2
    return float(enemies["x"][first]), float(enemies["y"][first]), strength


def known_buildings(
    situation: Situation,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns x and y of the enemy buildings in sight or remembered, each of shape [N]."""
    memory = macro.remembered_enemies(situation)
    enemies = situation.enemies
    structures = situation.unit_rules["structure"][enemies["unit_type"]] != 0
    xs = np.concatenate([enemies["x"][structures], memory["x"]])
    ys = np.concatenate([enemies["y"][structures], memory["y"]])
    return xs, ys


def next_target(situation: Situation, front: Front, dice: Dice) -> tuple[float, float]:
    """Returns the nearest known enemy building, or a place to search if none is known."""
    xs, ys = known_buildings(situation)
    if len(xs):
        army, (x, y) = situation.army, front.start
        if len(army):
            x, y = mean(situation.x[army]), mean(situation.y[army])
        nearest = int(np.argmin((xs - x) ** 2 + (ys - y) ** 2))
        return float(xs[nearest]), float(ys[nearest])
    x, y = front.enemy_start
    if not situation.has_seen(x, y):
        return x, y
    bases = situation.game.map.bases
    base = bases[(front.searched // 3 + dice.below(2)) % len(bases)]
    front.searched += 1
    if front.searched > 6 * len(bases) and dice.chance(0.5):
        return _anywhere(situation, dice)
    return base.x, base.y


def _anywhere(situation: Situation, dice: Dice) -> tuple[float, float]:
    x0, y0, x1, y1 = situation.game.map.playable
    return float(x0 + dice.below(x1 - x0)), float(y0 + dice.below(y1 - y0))


def fighters(situation: Situation) -> NDArray[np.int64]:
    """Returns the units that go on attacks: the army without queens."""
    army = situation.army
    return army[situation.types[army] != ids.UNIT_QUEEN]


def lead(situation: Situation, front: Front, dice: Dice) -> list[Intent]:
    """Returns the army's orders for this moment."""
    units = fighters(situation)
    danger = threat(situation)
    if danger is not None:
        intents = _defend(situation, front, danger)
        if intents is not None:
            return intents
    if len(units) == 0:
        front.attacking = False
        return []
    if front.attacking:
        return _press(situation, front, units, dice)
    is_strong = (
        situation.food_army >= _wave(situation, front)
        or situation.food_used >= _FULL_SUPPLY
    )
    if is_strong or _has_won_a_fight(situation, front):
        front.attacking = True
        front.target = next_target(situation, front, dice)
        front.last_order = _NEVER
        front.began_food = situation.food_army
        return _press(situation, front, units, dice)
    return _gather(situation, front, units)


def _wave(situation: Situation, front: Front) -> float:
    """Returns the supply at which the army attacks. It falls in long games."""
    patience = 1.0 - max(situation.loop - IMPATIENT_LOOP, 0) / 12000.0
    return front.wave * max(patience, 0.35)


def _has_won_a_fight(situation: Situation, front: Front) -> bool:
    """Returns whether the enemy has just lost so much more that the army should attack."""
    record = situation.world.players[situation.player]
    killed = int(record["killed_minerals"] + record["killed_vespene"])
    balance = killed - int(record["lost_minerals"] + record["lost_vespene"])
    won = balance - front.balance > 700 and situation.food_army > 0.55 * front.wave
    # Old fights count less and less.
    front.balance += (balance - front.balance) // 16
    return won and threat(situation) is None


def _defend(
    situation: Situation, front: Front, danger: tuple[float, float, float]
) -> list[Intent] | None:
    """Returns the answer to an attack on own bases; None if the army should not come back."""
    x, y, strength = danger
    army = situation.army
    if front.attacking and strength < 0.25 * situation.food_army:
        return None
    if not front.attacking and not _must_defend_again(situation, front, (x, y)):
        return []
    front.last_order = situation.loop
    front.defended = (x, y)
    helpers = army
    is_weak = len(army) == 0 or situation.food_army < strength * 0.5
    # Workers fight against a few enemies when the army is too weak.
    if is_weak and strength <= 8 and len(situation.workers) > 8:
        free = macro.free_workers(situation)
        dx, dy = situation.x[free] - x, situation.y[free] - y
        nearest = free[np.argsort(dx * dx + dy * dy, kind="stable")]
        helpers = np.concatenate([army, nearest[: int(strength * 2)]])
    if len(helpers) == 0:
        return []
    front.attacking = False
    tags = situation.tags_of(helpers)
    return [Intent(ABILITY_ATTACK, tags, point=(x, y), where=(x, y), group=GROUP_ARMY)]


def _must_defend_again(
    situation: Situation, front: Front, danger: tuple[float, float]
) -> bool:
    """Returns whether the army needs another order against enemies near own bases."""
    waited = situation.loop - front.last_order
    if not front.human:
        return waited >= _DEFENCE_LOOPS
    dx, dy = danger[0] - front.defended[0], danger[1] - front.defended[1]
    army = situation.army
    idle = int(np.count_nonzero(situation.orders[army] == 0))
    has_changed = distance(dx, dy) > _DEFENCE_GAP or idle * 3 > len(army)
    return waited >= (_DEFENCE_LOOPS if has_changed else 8 * _DEFENCE_LOOPS)


def _press(
    situation: Situation, front: Front, units: NDArray[np.int64], dice: Dice
) -> list[Intent]:
    """Keeps an attack going: new targets, stragglers, retreat when it fails."""
    tags = situation.tags_of(units)
    if _is_beaten(situation, front):
        front.attacking = False
        front.wave = min(front.wave * 1.15 + 4.0, 130.0)
        home = rally_point(situation, front)
        return [Intent(ABILITY_MOVE, tags, point=home, where=home, group=GROUP_ARMY)]
    if front.human:
        return _follow(situation, front, units, dice)
    is_due = situation.loop - front.last_order > int(260 - 160 * front.control)
    idle = units[situation.orders[units] == 0]
    if len(idle) * 2 > len(units):
        front.target = next_target(situation, front, dice)
    elif not is_due:
        return []
    front.last_order = situation.loop
    # A well-led army stays together: those ahead wait for the rest before the last stretch.
    xs, ys = situation.x[units], situation.y[units]
    dx, dy = xs - mean(xs), ys - mean(ys)
    spread = math.sqrt(mean(dx * dx + dy * dy))
    middle = (float(np.median(xs)), float(np.median(ys)))
    target = front.target
    way = distance(target[0] - middle[0], target[1] - middle[1])
    if spread > 14 and way > 30 and dice.chance(0.35 + 0.6 * front.control):
        target = middle
    return [Intent(ABILITY_ATTACK, tags, point=target, where=middle, group=GROUP_ARMY)]


def _is_outmatched(situation: Situation, front: Front) -> bool:
    """Returns whether a well-led army sees that the enemies before it are too strong for it."""
    units, enemies = fighters(situation), situation.enemies
    x, y = float(np.median(situation.x[units])), float(np.median(situation.y[units]))
    food = situation.unit_rules["food_halves"]
    far = _FIGHT_RADIUS**2
    is_near = (enemies["x"] - x) ** 2 + (enemies["y"] - y) ** 2 < far
    rule = situation.unit_rules[enemies["unit_type"]]
    can_fight = (rule["worker"] == 0) & (rule["provides"] == 0)
    theirs = float(rule["food_halves"][is_near & can_fight].sum())
    dx, dy = situation.x[units] - x, situation.y[units] - y
    mine = float(food[situation.types[units[dx * dx + dy * dy < far]]].sum())
    return theirs > mine * (2.6 - 1.2 * front.control) and theirs > _SKIRMISH


def _follow(
    situation: Situation, front: Front, units: NDArray[np.int64], dice: Dice
) -> list[Intent]:
    """Keeps an attack going as people do: new orders only when something has changed."""
    idle = units[situation.orders[units] == 0]
    xs, ys = known_buildings(situation)
    if len(xs) == 0 and situation.has_seen(*front.enemy_start):
        return _hunt(situation, front, units, idle, dice)
    if situation.loop - front.last_order < _FOLLOW_LOOPS:
        return []
    x, y = front.target
    gaps = (xs - x) ** 2 + (ys - y) ** 2
    is_gone = situation.sees(x, y) and not np.any(gaps < _TARGET_GAP**2)
    food = float(situation.unit_rules["food_halves"][situation.types[idle]].sum()) / 2
    has_followers = food >= min(_FOLLOWER_FOOD, 0.4 * situation.food_army)
    if not is_gone and not has_followers:
        return []
    front.target = next_target(situation, front, dice)
    front.last_order = situation.loop
    tags = situation.tags_of(units)
    where = (float(np.median(situation.x[units])), float(np.median(situation.y[units])))
    return [Intent(ABILITY_ATTACK, tags, point=front.target, where=where)]


def _hunt(
    situation: Situation,
    front: Front,
    units: NDArray[np.int64],
    idle: NDArray[np.int64],
    dice: Dice,
) -> list[Intent]:
    """Sends squads of idle fighters to bases where the enemy may still have buildings."""
    size = max(len(units) // _SQUADS, 1)
    intents: list[Intent] = []
    while len(idle) * 2 >= size and len(idle) and len(intents) < _SQUADS:
        x, y = _unsearched(situation, front, situation.point(int(idle[0])), dice)
        dx, dy = situation.x[idle] - x, situation.y[idle] - y
        order = np.argsort(dx * dx + dy * dy, kind="stable")
        squad, idle = idle[order[:size]], idle[order[size:]]
        where = situation.point(int(squad[0]))
        tags = situation.tags_of(squad)
        intents.append(Intent(ABILITY_ATTACK, tags, point=(x, y), where=where))
        front.target = (x, y)
    return intents


def _unsearched(
    situation: Situation, front: Front, start: tuple[float, float], dice: Dice
) -> tuple[float, float]:
    """Returns the nearest base never seen, else not seen lately, else any place.

    It is noted as visited.
    """
    choices = []
    for index, base in enumerate(situation.game.map.bases):
        visited = front.visited.get(index, _NEVER_VISITED)
        if situation.loop - visited >= _VISIT_LOOPS and not situation.sees(
            base.x, base.y
        ):
            gap = distance(base.x - start[0], base.y - start[1])
            choices.append((situation.has_seen(base.x, base.y), gap, index))
    if not choices:
        return _anywhere(situation, dice)
    index = min(choices)[2]
    front.visited[index] = situation.loop
    base = situation.game.map.bases[index]
    return base.x, base.y


def _is_beaten(situation: Situation, front: Front) -> bool:
    """Returns whether an attack has lost too much to go on."""
    share = 0.45 if situation.loop < IMPATIENT_LOOP else 0.2
    if front.human and _is_outmatched(situation, front):
        return True
    has_shrunk = situation.food_army < share * front.began_food
    return has_shrunk and situation.food_army < _wave(situation, front) * 0.6


def _gather(
    situation: Situation, front: Front, units: NDArray[np.int64]
) -> list[Intent]:
    """Brings idle fighters to the rally point."""
    x, y = rally_point(situation, front)
    dx, dy = situation.x[units] - x, situation.y[units] - y
    is_away = dx * dx + dy * dy > _GATHER_RADIUS_SQUARED
    away = units[is_away & (situation.orders[units] == 0)]
    if len(away) < (min(_STRAGGLERS, len(units)) if front.human else 1):
        return []
    where = situation.point(int(away[0]))
    tags = situation.tags_of(away)
    return [Intent(ABILITY_ATTACK, tags, point=(x, y), where=where)]


def is_hopeless(situation: Situation, front: Front) -> bool:
    """Returns whether a sensible player would surrender."""
    front.peak_food = max(front.peak_food, situation.food_used)
    is_poor = situation.minerals < 400 and situation.food_army < 6
    if len(situation.halls) == 0 and is_poor:
        return True
    if situation.loop < 2500:
        return False
    if situation.food_used < 0.45 * front.peak_food and situation.food_army < 8:
        return True
    danger = threat(situation)
    if danger is None:
        return False
    strength = danger[2]
    return strength > 14 and situation.food_army < 0.2 * strength
