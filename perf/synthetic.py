"""Episodes that imitate the properties of ladder games that matter to a codec.

Calibrated on public facts: one stored step per ten game loops, some 140 neutral rows first in
ascending tag order, visible units after them in no order, rows that shift when units enter
or leave vision, workers that shuttle, armies that move together, vision discs, an exact
rectangle for a camera. `restless` lets workers criss-cross the map and vision flicker.
"""

import numpy as np
from numpy.typing import NDArray

from starmill.schema import episode, settings, specs

SETTINGS = settings.UNPLUGGED
_COLUMN = {name: index for index, name in enumerate(specs.unit_columns(SETTINGS))}
_NEUTRAL, _OWN, _ENEMY = 139, 150, 90


def game(seed: int, steps: int, *, restless: bool = False) -> episode.Arrays:
    """Returns the arrays of one episode, [T, *shape]."""
    rng = np.random.default_rng([seed, steps])
    out = {
        key: np.zeros((steps, *spec.shape), spec.dtype)
        for key, spec in specs.episode_specs(SETTINGS).items()
    }
    delay = np.clip(rng.geometric(0.1, steps), 1, 127).astype(np.int32)
    delay[-1] = delay[-2] if steps > 1 else 1
    out["action/delay"][:] = delay
    out["game_loop"][:] = np.concatenate([[0], np.cumsum(delay)[:-1]])
    out["mmr"][:] = 4200
    out["home_race_requested"][:], out["away_race_requested"][:] = 1, 3
    out["away_race_observed"][:] = np.where(np.arange(steps) < steps // 9, 4, 3)
    _planes(out, rng)
    world = _World(rng, restless)
    for t in range(steps):
        world.advance(t, int(delay[t]), t / steps)
        world.write(out, t)
    return out


def _planes(out: episode.Arrays, rng: np.random.Generator) -> None:
    """Terrain: terraces with noise-free ramps, cliffs that cannot be walked."""
    grid = np.linspace(0, 6, 128)
    a, b, c, d = rng.uniform(0.4, 1.2, 4)
    field = np.sin(a * grid)[:, None] + np.cos(b * grid)[None, :]
    field = field + np.sin(c * grid[:, None] + d * grid[None, :])
    level = np.digitize(field, [-1.2, 0.2, 1.4])
    edge = (np.diff(level, axis=0, prepend=level[:1]) != 0) | (
        np.diff(level, axis=1, prepend=level[:, :1]) != 0
    )
    out["minimap_height_map"][:] = (110 + 16 * level).astype(np.uint8)
    out["minimap_pathable"][:] = ~edge
    out["minimap_buildable"][:] = ~edge & (level > 0)


class _World:
    """Units by slot: neutral first, then own, then the enemy's."""

    def __init__(self, rng: np.random.Generator, restless: bool) -> None:
        count = _NEUTRAL + _OWN + _ENEMY
        self._rng, self._restless = rng, restless
        self._rows = np.zeros((count, len(_COLUMN)), np.int32)
        self._neutral = np.arange(count) < _NEUTRAL
        self._own = (np.arange(count) >= _NEUTRAL) & (
            np.arange(count) < _NEUTRAL + _OWN
        )
        self._enemy = np.arange(count) >= _NEUTRAL + _OWN
        home, away = np.array([60.0, 70.0]), np.array([190.0, 180.0])
        self._home = np.where(self._enemy[:, None], away, home)
        self._place = self._home + rng.normal(0, 8, (count, 2))
        self._place[self._neutral] = rng.uniform(8, 248, (_NEUTRAL, 2))
        self._goal = self._place.copy()
        self._worker = ~self._neutral & (rng.random(count) < 0.4)
        self._building = ~self._neutral & ~self._worker & (rng.random(count) < 0.3)
        self._born = np.where(self._neutral, 0, rng.uniform(-0.12, 0.9, count))
        self._seen = np.zeros((128, 128), bool)
        self._order = np.arange(count)[_NEUTRAL:]
        rng.shuffle(self._order)
        self._camera = home.copy()
        self._money = np.array([50, 0], np.int32)
        rows, column = self._rows, _COLUMN
        rows[:, column["unit_type"]] = rng.integers(1, 230, count)
        rows[self._worker, column["unit_type"]] = 45
        rows[:, column["alliance"]] = np.where(
            self._neutral, 3, np.where(self._own, 1, 4)
        )
        rows[:, column["owner"]] = np.where(
            self._neutral, 16, np.where(self._own, 1, 2)
        )
        rows[:, column["radius"]] = rng.integers(0, 4, count)
        rows[:, column["health"]] = np.where(self._neutral, 10000, 45)
        rows[:, column["health_ratio"]] = 255
        rows[:, column["cloak"]] = 3
        rows[:, column["build_progress"]] = 100
        rows[self._neutral, column["mineral_contents"]] = 1800 * (
            rng.random(_NEUTRAL) < 0.5
        )
        index = np.where(self._neutral, np.arange(count), 400 + rng.permutation(count))
        rows[:, column["tag"]] = (
            (index * (1 << 18) + 1).astype(np.int64).astype(np.int32)
        )

    def advance(self, t: int, delay: int, age: float) -> None:
        """Moves everything by `delay` loops."""
        rng, column = self._rng, _COLUMN
        self._alive = self._born <= age
        arrived = np.abs(self._goal - self._place).sum(1) < 1.5
        mobile = ~self._neutral & ~self._building
        span = 90.0 if self._restless else 9.0
        renew = self._worker & arrived & (rng.random(len(arrived)) < 0.7)
        self._goal[renew] = self._home[renew] + rng.normal(
            0, span, (int(renew.sum()), 2)
        )
        if t % 40 == 0:
            army = mobile & ~self._worker & (rng.random(len(arrived)) < 0.3)
            target = rng.uniform(20, 236, 2)
            self._goal[army] = target + rng.normal(0, 4, (int(army.sum()), 2))
        step = self._goal - self._place
        far = np.maximum(np.abs(step).max(1, keepdims=True), 1e-6)
        moving = mobile[:, None] & ~arrived[:, None]
        self._place += np.where(moving, step / far * np.minimum(far, 0.16 * delay), 0)
        rows = self._rows
        rows[:, column["x"]] = np.clip(self._place[:, 0], 0, 255)
        rows[:, column["y"]] = np.clip(self._place[:, 1], 0, 255)
        facing = (np.arctan2(step[:, 1], step[:, 0]) % (2 * np.pi)).astype(np.int32)
        rows[:, column["facing"]] = np.where(
            moving[:, 0], facing, rows[:, column["facing"]]
        )
        rows[:, column["order_length"]] = moving[:, 0]
        rows[:, column["order_id_0"]] = np.where(
            moving[:, 0], np.where(self._worker, 102, 2), 0
        )
        busy = self._building & (np.arange(len(rows)) % 3 == 0) & self._own
        rows[busy, column["order_progress_0"]] = (
            rows[busy, column["order_progress_0"]] + delay // 4 + 1
        ) % 100
        rows[busy, column["active"]] = 1
        hurt = mobile & ~self._worker & (rng.random(len(rows)) < 0.03)
        rows[hurt, column["health"]] = rng.integers(5, 45, int(hurt.sum()))
        rows[:, column["health_ratio"]] = (
            np.minimum(rows[:, column["health"]], 45) * 255 // 45
        )
        rows[:, column["weapon_cooldown"]] = np.where(
            hurt, rng.integers(1, 15, len(rows)), 0
        )
        self._money = np.clip(self._money + rng.integers(-20, 60, 2), 0, 2000)
        if rng.random() < 0.3:
            self._camera = np.clip(self._camera + rng.normal(0, 25, 2), 10, 246)

    def write(self, out: episode.Arrays, t: int) -> None:
        """Writes step t."""
        column, rows = _COLUMN, self._rows
        cells = np.clip((self._place / 2).astype(int), 0, 127)
        visible = self._vision(cells[self._own & self._alive])
        self._seen |= visible
        out["minimap_visibility_map"][t] = np.where(visible, 2, self._seen)
        seen = visible[cells[:, 1], cells[:, 0]]
        if self._restless:
            seen &= self._rng.random(len(seen)) < 0.9
        rows[self._neutral, column["display_type"]] = np.where(
            seen[self._neutral], 1, 2
        )
        rows[~self._neutral, column["display_type"]] = 1
        x, y = self._camera
        left, right, top, bottom = int(x - 22), int(x + 22), int(y - 18), int(y + 10)
        on_screen = (
            (rows[:, column["x"]] >= left)
            & (rows[:, column["x"]] <= right)
            & (rows[:, column["y"]] >= top)
            & (rows[:, column["y"]] <= bottom)
        )
        rows[:, column["is_on_screen"]] = on_screen
        shown = self._alive & (self._own | (self._enemy & seen))
        present = np.concatenate(
            [np.flatnonzero(self._neutral), self._order[shown[self._order]]]
        )
        units = rows[present]
        hidden = self._enemy[present] & ~on_screen[present]
        units[hidden, 0] = 254
        units[np.ix_(hidden, [2, 3, 4, 5, 6, 7, 8, 9, 14, 16, *range(19, 29)])] = 0
        out["raw_units"][t, : len(units)] = units
        relative = out["minimap_player_relative"][t]
        relative[cells[self._neutral, 1], cells[self._neutral, 0]] = 3
        relative[cells[shown & self._own, 1], cells[shown & self._own, 0]] = 1
        relative[cells[shown & self._enemy, 1], cells[shown & self._enemy, 0]] = 4
        out["camera"][t, max(0, top) : bottom + 1, max(0, left) : right + 1] = 1
        out["camera_position"][t] = (int(x), int(y))
        out["camera_size"][t] = 33
        out["player"][t] = [1, *self._money, *([int(shown.sum())] * 8)]
        out["unit_counts_bow"][t] = np.bincount(
            rows[shown & self._own, 0], minlength=243
        )[:243]
        self._act(out, t, len(present))

    def _vision(self, cells: NDArray[np.int64]) -> NDArray[np.bool_]:
        out = np.zeros((128 + 14, 128 + 14), bool)
        span = np.arange(-7, 8)
        disc = span[:, None] ** 2 + span[None, :] ** 2 <= 42
        for x, y in np.unique(cells, axis=0):
            out[y : y + 15, x : x + 15] |= disc
        return out[7:-7, 7:-7]

    def _act(self, out: episode.Arrays, t: int, count: int) -> None:
        rng = self._rng
        out["action/function"][t] = rng.choice(
            [168, 2, 1, 102, 15, 45], p=[0.4, 0.2, 0.15, 0.1, 0.1, 0.05]
        )
        out["action/unit_tags"][t] = 512
        size = min(int(rng.geometric(0.3)), 64)
        mine = _NEUTRAL + rng.choice(
            count - _NEUTRAL, min(size, count - _NEUTRAL), replace=False
        )
        out["action/unit_tags"][t, : len(mine)] = np.sort(mine)
        out["action/world"][t] = rng.integers(0, 65536)
        out["action/target_unit_tag"][t] = rng.integers(0, count)
        out["action/queued"][t] = rng.random() < 0.05
