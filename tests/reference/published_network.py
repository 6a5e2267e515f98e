"""The published network, written down once more: plainly, and slowly.

A direct transcription of the architecture's description into JAX: what the description adds up is
added up here, one-hot vectors are built and multiplied, and unit_tags runs its 64 slots one after
the other with all its logits. Parameters are those of `learners/networks/published`, by the same names, as
nested dicts. `perf/learners.py` measures it beside ours, and tests compare the two.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from starmill.learners.networks.published import tables
from starmill.schema import specs
from starmill.schema.settings import UNPLUGGED

MASKED = -1e10
COLUMNS = {name: i for i, name in enumerate(specs.unit_columns(UNPLUGGED))}
COLUMNS |= {"last_selected": 46, "last_targeted": 47}
FIRST, LAST = 0, 2
SCALARS = {"function": 556, "delay": 128, "queued": 2, "repeat": 3}
ARGUMENTS = (*SCALARS, "unit_tags", "target_unit_tag", "world")
WEIGHTS = dict(zip(ARGUMENTS, (40, 9, 1, 0.1, 320, 30, 11), strict=True))
# Feature, first slot, slots, and how a value becomes a slot.
COUNTED = (
    ("alliance", 0, 5, "plain"),
    ("health", 5, 39, "sqrt"),
    ("shield", 44, 32, "sqrt"),
    ("energy", 76, 15, "sqrt"),
    ("cargo_space_taken", 91, 9, "cap"),
    ("display_type", 100, 5, "plain"),
    ("cloak", 105, 5, "plain"),
    ("is_powered", 110, 2, "plain"),
    ("mineral_contents", 112, 19, 100),
    ("vespene_contents", 131, 26, 100),
    ("mined_minerals", 157, 43, "sqrt"),
    ("mined_vespene", 200, 51, "sqrt"),
    ("cargo_space_max", 251, 9, "cap"),
    ("assigned_harvesters", 260, 25, "cap"),
    ("ideal_harvesters", 285, 17, "cap"),
    ("weapon_cooldown", 302, 33, "cap"),
    ("order_length", 335, 9, "cap"),
    ("addon_class", 344, 7, "plain"),
    ("hallucination", 351, 2, "plain"),
    ("buff_id_0", 353, 46, "plain"),
    ("buff_id_1", 353, 46, "plain"),
    ("active", 399, 2, "plain"),
    ("is_on_screen", 401, 2, "plain"),
    ("is_blip", 403, 2, "plain"),
    ("order_progress_0", 405, 11, 10),
    ("order_progress_1", 416, 11, 10),
    ("is_in_cargo", 427, 2, "plain"),
    ("buff_duration_remain", 429, 16, "sqrt"),
    ("attack_upgrade_level", 445, 5, "plain"),
    ("armor_upgrade_level", 450, 5, "plain"),
    ("shield_upgrade_level", 455, 5, "plain"),
    ("last_selected", 460, 2, "plain"),
    ("last_targeted", 462, 2, "plain"),
)
SLOTS = 464


def linear(p, x):
    return x @ p["kernel"] + p["bias"]


def norm(p, x, axes=(-1,)):
    mean = x.mean(axes, keepdims=True)
    variance = ((x - mean) ** 2).mean(axes, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * p["scale"] + p["bias"]


def layer(p, x):
    return linear(p["linear"], jax.nn.relu(norm(p["norm"], x)))


def layers(p, x):
    for index in sorted(p["layers"]):
        x = layer(p["layers"][index], x)
    return x


def resnet(p, x):
    blocks = p.get("blocks", {})
    for index in sorted(blocks):
        x = x + layer(blocks[index]["second"], layer(blocks[index]["first"], x))
    return x


def merge(p, *inputs):
    hidden = [jax.nn.relu(norm(p["norms"][k], x)) for k, x in enumerate(inputs)]
    images = [linear(p["images"][k], h) for k, h in enumerate(hidden)]
    if not p.get("gates"):
        return sum(images)
    gate = sum(linear(p["gates"][k], h) for k, h in enumerate(hidden))
    if len(inputs) == 2:
        share = jax.nn.sigmoid(gate)
        return share * images[0] + (1 - share) * images[1]
    gate = gate.reshape(*gate.shape[:-1], len(inputs), -1)
    return (jax.nn.softmax(gate, axis=-2) * jnp.stack(images, axis=-2)).sum(-2)


def convolve(p, x, stride=1):
    out = jax.lax.conv_general_dilated(
        x,
        p["kernel"],
        (stride, stride),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    return out + p["bias"]


def deconvolve(p, x):
    """Zeros between the inputs, padding, and the kernel [k, k, out, in] as it is."""
    size = p["kernel"].shape[0]
    before, after = (2, 2) if size == 4 else (1, 1)
    out = jax.lax.conv_general_dilated(
        x,
        p["kernel"].swapaxes(2, 3),
        (1, 1),
        [(before, after), (before, after)],
        lhs_dilation=(2, 2),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    return out + p["bias"]


def plane_layer(p, x, stride=1):
    hidden = jax.nn.relu(norm(p["norm"], x, (-3, -2, -1)))
    return convolve(p["convolution"], hidden, stride)


def plane_double(p, x):
    return deconvolve(p["convolution"], jax.nn.relu(norm(p["norm"], x, (-3, -2, -1))))


def plane_blocks(p, x):
    for index in sorted(p):
        x = x + plane_layer(p[index]["second"], plane_layer(p[index]["first"], x))
    return x


def at(table, index):
    table = jnp.asarray(table)
    index = jnp.minimum(index, len(table) - 1)
    return table[jnp.where(index < 0, jnp.maximum(index + len(table), 0), index)]


def used(function, step_type):
    function = jnp.clip(function, 0, 555)
    return {
        name: jnp.asarray(tables.argument_used(name))[function] & (step_type != FIRST)
        for name in ARGUMENTS
    }


def encode_vector(p, observation, previous, step_type):
    phase = observation["game_loop"][:, None] * jnp.asarray(tables.clock_frequencies())
    clock = jnp.concatenate([jnp.sin(phase), jnp.cos(phase)], axis=-1)
    ids = jnp.minimum(observation["upgrades_fixed_length"], 91)
    upgrades = jax.nn.one_hot(ids, 92).max(1)
    out = linear(p["game_loop"], clock)
    out += linear(p["unit_counts"], jnp.sqrt(1.0 * observation["unit_counts_bow"]))
    out += linear(p["player"], jnp.log1p(1.0 * observation["player"]))
    mmr = jnp.trunc(observation["mmr"] * jnp.float32(0.001)).astype(jnp.int32)
    out += at(p["mmr"]["embedding"], mmr)
    for name in ("home_race_requested", "away_race_requested", "away_race_observed"):
        out += at(p[name]["embedding"], observation[name])
    out += linear(p["upgrades"], upgrades)
    present = used(previous["function"], step_type)
    for name in SCALARS:
        embedded = at(p["previous"][name]["embedding"], previous[name])
        out += embedded * present[name][:, None]
    return out


def encode_units(p, rows):
    column = {name: rows[..., i] for name, i in COLUMNS.items()}
    initial = at(tables.initial_resources(), column["unit_type"])
    column["mined_minerals"] = initial - column["mineral_contents"]
    column["mined_vespene"] = initial - column["vespene_contents"]
    column["addon_class"] = at(tables.addon_classes(), column["addon_unit_type"])
    ratios = (
        ("build_progress", 100),
        ("health_ratio", 255),
        ("shield_ratio", 255),
        ("energy_ratio", 255),
        ("order_progress_0", 100),
        ("order_progress_1", 100),
    )
    out = linear(p["unit_type"], jax.nn.one_hot(column["unit_type"], 256))
    out += linear(p["attributes"], at(tables.unit_attributes(), column["unit_type"]))
    for name in ("x", "y"):
        bits = column[name][..., None] >> jnp.arange(8) & 1
        out += linear(p[name], bits.astype(jnp.float32))
    out += linear(
        p["ratios"], jnp.stack([column[name] / top for name, top in ratios], axis=-1)
    )
    first = at(tables.order_classes(), column["order_id_0"])
    out += linear(p["order"], jax.nn.one_hot(first, 318))
    for k, name in enumerate(("order_id_1", "order_id_2", "order_id_3", "order_id_3")):
        later = at(tables.queue_classes(), column[name])
        out += linear(p["later_orders"][k], jax.nn.one_hot(later, 107))
    counts = jnp.zeros((*rows.shape[:2], SLOTS))
    for name, offset, size, transform in COUNTED:
        value = column[name]
        if transform == "sqrt":
            root = jnp.floor(jnp.sqrt(jnp.maximum(value, 0).astype(jnp.float32)))
            value = jnp.minimum(root.astype(jnp.int32), size - 1)
        elif transform == "cap":
            value = jnp.minimum(value, size - 1)
        elif transform != "plain":
            value = jnp.minimum(value // transform, size - 1)
        counts += jax.nn.one_hot(offset + value, SLOTS)
    out += linear(p["counts"], counts)
    present = column["alliance"] != 0
    return out * present[..., None], present


def encode_planes(p, observation):
    height = observation["minimap_height_map"][..., None] / jnp.float32(255)
    out = convolve(p["planes"]["height_map"], height, 2)
    for name, count in (
        ("visibility_map", 4),
        ("creep", 2),
        ("player_relative", 5),
        ("alerts", 2),
        ("pathable", 2),
        ("buildable", 2),
    ):
        plane = jnp.minimum(observation[f"minimap_{name}"], count - 1)
        out += convolve(p["planes"][name], jax.nn.one_hot(plane, count), 2)
    camera = observation["camera"].astype(jnp.float32)
    pooled = camera.reshape(len(camera), 64, 4, 64, 4).mean((2, 4))
    return out + linear(p["camera"], pooled[..., None])


def attend(p, x, present, heads):
    hidden = jax.nn.relu(norm(p["norm"], x))

    def split(value):
        return value.reshape(*value.shape[:2], heads, -1)

    query, key, value = (
        split(linear(p[name], hidden)) for name in ("query", "key", "value")
    )
    logits = jnp.einsum("bqhd,bkhd->bhqk", query, key) / math.sqrt(key.shape[-1])
    logits = jnp.where(present[:, None, None], logits, -1e30)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(logits), value)
    out = linear(p["out"], mixed.reshape(*x.shape[:2], -1))
    return x + jnp.where(present[..., None], out, 0)


def torso(p, vector, units, planes, present, rows, heads):
    vector = resnet(p["vector_before"], vector)
    units = resnet(p["units"]["before"], units)
    for index in sorted(p["units"]["attention"]):
        units = attend(p["units"]["attention"][index], units, present, heads)
    units = resnet(p["units"]["after"], units) * present[..., None]

    values = layer(p["scatter"]["units"], units) * present[..., None]
    column = jnp.clip(rows[..., COLUMNS["x"]] // 4, 0, 63)
    row = jnp.clip(rows[..., COLUMNS["y"]] // 4, 0, 63)
    frame = jnp.arange(len(rows))[:, None]
    grid = jnp.zeros((len(rows), 64, 64, values.shape[-1]))
    grid = grid.at[frame, row, column].add(values)
    fine = planes + plane_layer(p["scatter"]["planes"], grid)

    middle = plane_layer(p["halve_fine"], fine, 2)
    coarse = plane_layer(p["halve_middle"], middle, 2)
    coarse = plane_blocks(p["plane_blocks"], coarse)
    picture = coarse
    for index in sorted(p["planes_to_vector"]["halvings"]):
        picture = plane_layer(p["planes_to_vector"]["halvings"][index], picture, 2)
    from_planes = layer(p["planes_to_vector"]["out"], picture.reshape(len(picture), -1))
    mean = layer(p["units_to_vector"]["units"], units).mean(1)
    from_units = layer(p["units_to_vector"]["out"], mean)
    vector = merge(p["merge"], vector, from_units, from_planes)
    return resnet(p["vector_after"], vector), units, (fine, middle, coarse)


def unit_tags(p, vector, units, rows, tags):
    """Returns logits [B, 64, 513], masks, and the vector and units with the choice in them."""
    keys, small, large = (layers(p[name], units) for name in ("keys", "small", "large"))
    allowed = rows[..., COLUMNS["tag"]] > 0
    allowed &= rows[..., COLUMNS["alliance"]] == 1
    allowed &= rows[..., COLUMNS["is_in_cargo"]] == 0

    def slot(state, tag):
        query, selected = state
        pointed = jnp.einsum("bk,buk->bu", layer(p["query"], query), keys)
        end = linear(p["end"], jax.nn.relu(query))
        ended = selected[:, 512:]
        mask = jnp.concatenate(
            [
                allowed & ~selected[:, :512] & ~ended,
                selected.any(-1, keepdims=True),
            ],
            axis=-1,
        )
        logits = jnp.where(mask, jnp.concatenate([pointed, end], axis=-1), MASKED)
        selected = selected | (jnp.arange(513) == tag[:, None])
        picked = jnp.take_along_axis(
            small, jnp.minimum(tag, 511)[:, None, None], axis=1
        )
        return (merge(p["next_query"], query, picked[:, 0]), selected), (logits, mask)

    start = resnet(p["resnet"], vector), jnp.zeros((len(vector), 513), bool)
    (_, selected), (logits, masks) = jax.lax.scan(slot, start, tags.T)
    bits = selected[:, :512].astype(jnp.float32)
    vector = merge(p["merge"], vector, jnp.einsum("bu,bud->bd", bits, large))
    units = merge(p["merge_units"], units, bits[..., None])
    return logits.swapaxes(0, 1), masks.swapaxes(0, 1), vector, units


def world(p, vector, planes):
    fine, middle, coarse = planes
    x = layer(p["start"], vector).reshape(len(vector), 4, 4, -1)
    for index in sorted(p["double_start"]):
        x = plane_double(p["double_start"][index], x)
    x = plane_blocks(p["blocks"], x + coarse)
    x = plane_double(p["double_coarse"], x) + middle
    x = plane_double(p["double_middle"], x) + fine
    x = plane_double(p["double_fine"], x)
    if p["out"]["convolution"]["kernel"].shape[0] == 2:
        x = plane_double(p["out"], x)
    else:
        x = plane_layer(p["out"], x)
        x = x.reshape(*x.shape[:3], 2, 2).transpose(0, 1, 3, 2, 4)
    return x.reshape(len(x), -1)


def forward(p, observation, previous, step_type, action, heads=2):
    """Returns the masked logits and the masks by argument, the clipped action, and the latent."""
    last = {**SCALARS, "unit_tags": 513, "target_unit_tag": 512, "world": 65536}
    action = {name: jnp.minimum(action[name], last[name] - 1) for name in ARGUMENTS}
    rows = observation["raw_units"]
    units, present = encode_units(p["units"], rows)
    vector, units, planes = torso(
        p["torso"],
        encode_vector(p["vector"], observation, previous, step_type),
        units,
        encode_planes(p["planes"], observation),
        present,
        rows,
        heads,
    )
    latent = vector
    logits, masks = {}, {}
    takes = used(action["function"], step_type)
    for name in SCALARS:
        head = p["scalars"][name]
        hidden = resnet(head["resnet"], vector) if "resnet" in head else vector
        logits[name] = layer(head["out"], hidden)
        embedded = head["embedding"]["embedding"][action[name]] * takes[name][:, None]
        vector = merge(head["merge"], vector, embedded)
    logits["unit_tags"], masks["unit_tags"], vector, units = unit_tags(
        p["unit_tags"], vector, units, rows, action["unit_tags"]
    )
    function = action["function"]
    seen = rows[..., COLUMNS["is_on_screen"]] == 1
    seen |= rows[..., COLUMNS["alliance"]] == 1
    anywhere = ~jnp.asarray(tables.camera_only_unit_functions())[function]
    mask = (rows[..., COLUMNS["tag"]] > 0) & (seen | anywhere[:, None])
    query = layer(p["target"]["query"], resnet(p["target"]["resnet"], vector))
    keys = layers(p["target"]["keys"], units)
    pointed = jnp.einsum("bk,buk->bu", query, keys)
    masks["target_unit_tag"] = mask
    logits["target_unit_tag"] = jnp.where(mask, pointed, MASKED)
    anywhere = ~jnp.asarray(tables.camera_only_point_functions())[function]
    mask = (observation["camera"].reshape(len(rows), -1) != 0) | anywhere[:, None]
    masks["world"] = mask
    logits["world"] = jnp.where(mask, world(p["world"], vector, planes), MASKED)
    return logits, masks, action, takes, latent


def loss(p, observation, previous, step_type, action, heads=2):
    """Returns the published loss of each step, [B]."""
    logits, masks, action, takes, _ = forward(
        p, observation, previous, step_type, action, heads
    )
    total = jnp.zeros(len(step_type))
    for name in ARGUMENTS:
        choice = action[name][..., None]
        log_prob = jax.nn.log_softmax(logits[name])
        nats = -jnp.take_along_axis(log_prob, choice, axis=-1)[..., 0]
        if name in masks:
            allowed = jnp.take_along_axis(masks[name], choice, axis=-1)[..., 0]
            nats = jnp.where(allowed, nats, 0)
        nats = nats.mean(-1) if nats.ndim == 2 else nats
        total += WEIGHTS[name] * jnp.where(takes[name] & (step_type != LAST), nats, 0)
    return total


def random_step(seed, frames, units=(150, 400)):
    """Returns plausible random inputs: observation, previous action, step types, action."""
    rng = np.random.default_rng(seed)

    def integers(high, *shape):
        return rng.integers(0, high, (frames, *shape)).astype(np.int32)

    rows = np.zeros((frames, 512, 48), np.int32)
    count = rng.integers(units[0], units[1] + 1, frames)
    for frame, number in enumerate(count):
        row = rng.integers(0, 2, (number, 48)).astype(np.int32)
        for name, top in (
            ("unit_type", 243),
            ("alliance", 4),
            ("health", 1500),
            ("shield", 500),
            ("energy", 200),
            ("x", 256),
            ("y", 256),
            ("mineral_contents", 1800),
            ("weapon_cooldown", 20),
            ("order_id_0", 556),
            ("order_id_1", 556),
            ("order_id_2", 556),
            ("order_id_3", 556),
            ("build_progress", 100),
            ("health_ratio", 256),
            ("order_progress_0", 100),
            ("buff_id_0", 48),
            ("addon_unit_type", 43),
        ):
            row[:, COLUMNS[name]] = rng.integers(0, top, number)
        row[:, COLUMNS["alliance"]] += 1
        row[:, COLUMNS["tag"]] = 1 + np.arange(number)
        rows[frame, :number] = row
    camera = np.zeros((frames, 256, 256), np.int32)
    camera[:, 100:120, 60:92] = 1
    observation = {
        "game_loop": integers(20000),
        "unit_counts_bow": integers(9, 243),
        "player": integers(500, 11),
        "mmr": integers(7000),
        "home_race_requested": integers(5),
        "away_race_requested": integers(5),
        "away_race_observed": integers(5),
        "upgrades_fixed_length": integers(90, 40),
        "raw_units": rows,
        "camera": camera,
        "minimap_height_map": integers(256, 128, 128).astype(np.uint8),
        "minimap_visibility_map": integers(4, 128, 128).astype(np.uint8),
        "minimap_player_relative": integers(5, 128, 128).astype(np.uint8),
    }
    for name in ("creep", "alerts", "pathable", "buildable"):
        observation[f"minimap_{name}"] = integers(2, 128, 128).astype(np.uint8)
    tags = np.full((frames, 64), 512, np.int32)
    for frame, number in enumerate(count):
        own = np.flatnonzero(rows[frame, :number, COLUMNS["alliance"]] == 1)
        choice = np.sort(rng.permutation(own)[: rng.integers(1, 24)])
        tags[frame, : len(choice)] = choice
    action = {
        "function": integers(556),
        "delay": 1 + integers(200),
        "queued": integers(2),
        "repeat": integers(3),
        "unit_tags": tags,
        "target_unit_tag": (rng.random(frames) * count).astype(np.int32),
        "world": integers(65536),
    }
    previous = {name: integers(top) for name, top in SCALARS.items()}
    step_type = np.ones(frames, np.int32)
    step_type[:1], step_type[-1:] = FIRST, LAST
    return observation, previous, step_type, action
