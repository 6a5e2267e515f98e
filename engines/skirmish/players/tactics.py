"""How a bot uses its army: gathering, defending, attacking, giving up.

In: a scene and the army's memory. Out: intents. The bot judges by what it sees: enemy units
in sight, buildings it remembers, and where the enemy must have started.
"""

import dataclasses
import math

import numpy as np

from starmill.engines.skirmish.players import macro
from starmill.engines.skirmish.players.situation import (
    Dice,
    Intent,
    Scene,
    distance,
    mean,
)

ATTACK, MOVE = 3674, 3794
HOME_RADIUS = 24.0  # enemies this near a town hall are defended against
IMPATIENT_LOOP = 9000


@dataclasses.dataclass
class Front:
    """What the bot's army is doing.

    attacking: whether it is out. target: where to. wave: food at which the next attack starts.
    control: 0 to 1, how well it is led. last_order: loop of the last army-wide order.
    balance: value killed less value lost, of fights long past. peak_food: most ever used.
    """

    wave: float
    control: float
    start: tuple[float, float]
    enemy_start: tuple[float, float]
    attacking: bool = False
    target: tuple[float, float] = (0.0, 0.0)
    last_order: int = -1000
    searched: int = 0
    began_food: float = 0.0
    balance: int = 0
    peak_food: float = 0.0


def rally_point(scene: Scene, front: Front) -> tuple[float, float]:
    """Returns where the army waits: before the outermost base, towards the enemy."""
    if len(scene.halls) == 0:
        return front.start
    ex, ey = front.enemy_start
    hall = scene.nearest(scene.halls, ex, ey)
    x, y = scene.point(hall)
    length = max(distance(ex - x, ey - y), 1.0)
    return x + (ex - x) / length * 7.0, y + (ey - y) / length * 7.0


def threat(scene: Scene) -> tuple[float, float, float] | None:
    """Returns the place and strength of enemies near own bases, None if there are none."""
    enemies = scene.enemies
    if len(enemies) == 0 or len(scene.halls) == 0:
        return None
    hx, hy = scene.x[scene.halls], scene.y[scene.halls]
    dx = enemies["x"][:, None] - hx[None, :]
    dy = enemies["y"][:, None] - hy[None, :]
    near = (dx * dx + dy * dy).min(axis=1) < HOME_RADIUS * HOME_RADIUS
    rule = scene.unit_rules[enemies["unit_type"]]
    near &= (rule["ground_damage"] > 0) | (rule["structure"] == 0)
    near &= rule["provides"] == 0
    if not np.any(near):
        return None
    first = int(np.flatnonzero(near)[0])
    strength = float(rule["food_halves"][near].sum()) / 2
    return float(enemies["x"][first]), float(enemies["y"][first]), strength


def next_target(scene: Scene, front: Front, dice: Dice) -> tuple[float, float]:
    """Returns where to attack: the nearest known enemy building, else a place to search."""
    memory = scene.world.snapshots[scene.player]
    memory = memory[(memory["alive"] == 1) & (memory["owner"] == 3 - scene.player)]
    structures = scene.unit_rules["structure"][scene.enemies["unit_type"]] != 0
    xs = np.concatenate([scene.enemies["x"][structures], memory["x"]])
    ys = np.concatenate([scene.enemies["y"][structures], memory["y"]])
    if len(xs):
        cx = mean(scene.x[scene.army]) if len(scene.army) else front.start[0]
        cy = mean(scene.y[scene.army]) if len(scene.army) else front.start[1]
        best = int(np.argmin((xs - cx) ** 2 + (ys - cy) ** 2))
        return float(xs[best]), float(ys[best])
    ex, ey = front.enemy_start
    if scene.world.visibility[scene.player, int(ey), int(ex)] == 0:
        return ex, ey
    bases = scene.game.map.bases
    base = bases[(front.searched // 3 + dice.below(2)) % len(bases)]
    front.searched += 1
    if front.searched > 6 * len(bases) and dice.chance(0.5):
        x0, y0, x1, y1 = scene.game.map.playable
        return float(x0 + dice.below(x1 - x0)), float(y0 + dice.below(y1 - y0))
    return base.x, base.y


def going_out(scene: Scene) -> np.ndarray:
    """Returns the army that goes out: all but queens."""
    army = scene.army
    return army[scene.types[army] != 126]


def lead(scene: Scene, front: Front, dice: Dice) -> list[Intent]:
    """Returns the army's orders for this moment."""
    fighters = going_out(scene)
    danger = threat(scene)
    if danger is not None:
        intent = _defend(scene, front, danger)
        if intent is not None:
            return intent
    if len(fighters) == 0:
        front.attacking = False
        return []
    if front.attacking:
        return _press(scene, front, fighters, dice)
    strong = scene.food_army >= _wave(scene, front) or scene.food_used >= 185
    strong = strong or _has_won_a_fight(scene, front)
    if strong:
        front.attacking = True
        front.target = next_target(scene, front, dice)
        front.last_order = -1000
        front.began_food = scene.food_army
        return _press(scene, front, fighters, dice)
    return _gather(scene, front, fighters)


def _wave(scene: Scene, front: Front) -> float:
    """Returns the food at which the army goes out; patience wears thin in long games."""
    patience = 1.0 - max(scene.loop - IMPATIENT_LOOP, 0) / 12000.0
    return front.wave * max(patience, 0.35)


def _has_won_a_fight(scene: Scene, front: Front) -> bool:
    """Returns whether the enemy has just lost so much more that now is the time to go."""
    record = scene.world.players[scene.player]
    killed = int(record["killed_minerals"] + record["killed_vespene"])
    balance = killed - int(record["lost_minerals"] + record["lost_vespene"])
    won = balance - front.balance > 700 and scene.food_army > 0.55 * front.wave
    # Old fights count less and less.
    front.balance += (balance - front.balance) // 16
    return won and threat(scene) is None


def _defend(
    scene: Scene, front: Front, danger: tuple[float, float, float]
) -> list[Intent] | None:
    """Returns the answer to an attack on own bases; None if the army should not come back."""
    x, y, strength = danger
    army = scene.army
    if front.attacking and strength < 0.25 * scene.food_army:
        return None
    if scene.loop - front.last_order < 40 and not front.attacking:
        return []
    front.last_order = scene.loop
    helpers = army
    alone = len(army) == 0 or scene.food_army < strength * 0.5
    # Workers fight when a few enemies are at the door and there is nobody else.
    if alone and strength <= 8 and len(scene.workers) > 8:
        free = macro.free_workers(scene)
        dx, dy = scene.x[free] - x, scene.y[free] - y
        close = free[np.argsort(dx * dx + dy * dy, kind="stable")]
        helpers = np.concatenate([army, close[: int(strength * 2)]])
    if len(helpers) == 0:
        return []
    front.attacking = False
    tags = tuple(int(t) for t in scene.tags[helpers])
    return [Intent(ATTACK, tags, point=(x, y), where=(x, y), group=1)]


def _press(
    scene: Scene, front: Front, fighters: np.ndarray, dice: Dice
) -> list[Intent]:
    """Keeps an attack going: new targets, stragglers, retreat when it fails."""
    xs, ys = scene.x[fighters], scene.y[fighters]
    brave = 0.45 if scene.loop < IMPATIENT_LOOP else 0.2
    beaten = scene.food_army < brave * front.began_food
    if beaten and scene.food_army < _wave(scene, front) * 0.6:
        front.attacking = False
        front.wave = min(front.wave * 1.15 + 4.0, 130.0)
        home = rally_point(scene, front)
        tags = tuple(int(t) for t in scene.tags[fighters])
        return [Intent(MOVE, tags, point=home, where=home, group=1)]
    due = scene.loop - front.last_order > int(260 - 160 * front.control)
    idle = fighters[scene.orders[fighters] == 0]
    arrived = len(idle) * 2 > len(fighters)
    if arrived:
        front.target = next_target(scene, front, dice)
    elif not due:
        return []
    front.last_order = scene.loop
    tx, ty = front.target
    tags = tuple(int(t) for t in scene.tags[fighters])
    # A well-led army goes as one: those ahead wait for the rest before the last stretch.
    dx, dy = xs - mean(xs), ys - mean(ys)
    spread = math.sqrt(mean(dx * dx + dy * dy))
    middle = (float(np.median(xs)), float(np.median(ys)))
    far = distance(tx - middle[0], ty - middle[1])
    if spread > 14 and far > 30 and dice.chance(0.35 + 0.6 * front.control):
        return [Intent(ATTACK, tags, point=middle, where=middle, group=1)]
    return [Intent(ATTACK, tags, point=front.target, where=middle, group=1)]


def _gather(scene: Scene, front: Front, fighters: np.ndarray) -> list[Intent]:
    """Brings idle fighters to the rally point."""
    x, y = rally_point(scene, front)
    dx, dy = scene.x[fighters] - x, scene.y[fighters] - y
    away = fighters[(dx * dx + dy * dy > 90.0) & (scene.orders[fighters] == 0)]
    if len(away) == 0:
        return []
    tags = tuple(int(t) for t in scene.tags[away])
    return [Intent(ATTACK, tags, point=(x, y), where=scene.point(int(away[0])))]


def is_hopeless(scene: Scene, front: Front) -> bool:
    """Returns whether a sensible player would leave: no way to make a fight of it."""
    front.peak_food = max(front.peak_food, scene.food_used)
    if len(scene.halls) == 0 and scene.minerals < 400 and scene.food_army < 6:
        return True
    if scene.loop < 2500:
        return False
    if scene.food_used < 0.45 * front.peak_food and scene.food_army < 8:
        return True
    danger = threat(scene)
    return danger is not None and danger[2] > 14 and scene.food_army < 0.2 * danger[2]
