"""The structured action: seven arguments, each conditioned on those before it.

In: a `Latent` of F frames. Out: logits under a given action (teacher forcing), `Scores` of that
action, or a sampled action. The order of the arguments is

    function, delay, queued, repeat, unit_tags, target_unit_tag, world

where unit_tags takes S pointer steps over unit rows, with an end marker and without repeats.
`function` decides which arguments exist; the others contribute nothing.
Paper: section "Architecture", last item.
Departs: the end marker has a key of its own and may come first; in the published network it enters
as the embedding of row 511, and is masked in the first slot.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from numpy.typing import NDArray

from starmill.learners.networks import layers, scoring, temperatures, world_head
from starmill.learners.networks.sampler import Sampler
from starmill.learners.networks.scoring import (
    ARGUMENTS,
    DELAYS,
    Action,
    Logits,
    Scores,
    delay_index,
)
from starmill.learners.networks.temperatures import Temperature
from starmill.schema import specs, vocab
from starmill.schema.settings import ConverterSettings


class Latent(NamedTuple):
    """What the encoder makes of F frames.

    Attributes:
        vector: [F, D]. This is also MuZero's latent space.
        units: [F, U, d], one embedding a row.
        valid: bool [F, U], which rows are units; the others of `units` are 0.
        planes: [F, H, W, C] of each level, finest first.
    """

    vector: jax.Array
    units: jax.Array
    valid: jax.Array
    planes: tuple[jax.Array, ...]


class _TagState(NamedTuple):
    """unit_tags of F frames while they are being sampled.

    Attributes:
        tags: [F, S], the rows of the slots so far; the number of rows in those after.
        total: [F, P], the sum of the selected rows' keys.
        number: [F], how many rows are selected.
        last: [F], the row selected last; -1 before the first.
        free: bool [F, U], rows that can still be selected.
        done: bool [F], whether the end marker was drawn.
    """

    tags: jax.Array
    total: jax.Array
    number: jax.Array
    last: jax.Array
    free: jax.Array
    done: jax.Array


@functools.lru_cache(maxsize=8)
def argument_table(settings: ConverterSettings) -> NDArray[np.bool_]:
    """Returns which arguments each function takes, [functions, 7], in ARGUMENTS' order.

    The shipped table does not list `repeat`. It exists for every unit command, as `queued`
    does, because those are the actions for which the converter records it.
    """
    table = np.zeros((settings.num_action_types, len(ARGUMENTS)), bool)
    repeats = "repeat" in specs.action_specs(settings)
    for function in vocab.functions()[: settings.num_action_types]:
        takes = {"function", "delay", *function.args}
        if "queued" in takes and repeats:
            takes.add("repeat")
        table[function.id] = [name in takes for name in ARGUMENTS]
    return table


class Policy(nnx.Module, Sampler[Latent]):
    """The heads of the seven arguments."""

    def __init__(
        self,
        settings: ConverterSettings,
        *,
        vector: int,
        unit: int,
        pointer: int,
        channels: tuple[int, ...],
        side: int,
        world_blocks: int,
        rngs: nnx.Rngs,
    ) -> None:
        spec = specs.action_specs(settings)
        self.settings = settings
        self.slots = spec["unit_tags"].shape[0]
        self.max_units = _maximum(spec["unit_tags"])
        sizes = {
            "function": settings.num_action_types,
            "delay": DELAYS,
            "queued": 2,
            "repeat": 3,
        }
        self.heads = nnx.Dict(
            {n: layers.MLP(vector, vector, k, rngs=rngs) for n, k in sizes.items()}
        )
        self.embeds = nnx.Dict(
            {n: nnx.Embed(k, vector, rngs=rngs) for n, k in sizes.items()}
        )
        hidden = 2 * pointer
        self.tag_key = nnx.Linear(unit, pointer, rngs=rngs)
        self.tag_end = nnx.Param(jnp.zeros(pointer))
        self.tag_context = nnx.Linear(vector, hidden, rngs=rngs)
        self.tag_past = nnx.Linear(pointer + 1, hidden, rngs=rngs)
        self.tag_query = nnx.Linear(hidden, pointer, rngs=rngs)
        self.tag_order = nnx.Linear(hidden, 2, rngs=rngs)
        self.tag_embed = nnx.Linear(pointer, vector, rngs=rngs)
        self.target_key = nnx.Linear(unit, pointer, rngs=rngs)
        self.target_query = layers.MLP(vector, hidden, pointer, rngs=rngs)
        cells = _maximum(spec["world"]) + 1
        self.world = world_head.WorldHead(
            vector, channels, cells, side, world_blocks, rngs=rngs
        )

    def function_logits(self, vector: jax.Array) -> jax.Array:
        """Returns the logits of `function` from latents [..., D]."""
        return self.heads["function"](vector)

    def delay_logits(self, vector: jax.Array, function: jax.Array) -> jax.Array:
        """Returns the logits of `delay` given the function; index 0 is a delay of 1."""
        return self.heads["delay"](vector + self._embed("function", function))

    def embed(
        self, vector: jax.Array, function: jax.Array, delay: jax.Array
    ) -> jax.Array:
        """Returns the latent with function and delay added, [..., D]."""
        vector = vector + self._embed("function", function)
        return vector + self._embed("delay", delay_index(delay))

    def function_delay_log_probs(
        self, vector: jax.Array, action: Action, legal: jax.Array | None = None
    ) -> tuple[jax.Array, jax.Array]:
        """Returns the log-probabilities of the given function and delay, [...] each."""

        def pick(logits: jax.Array, index: jax.Array) -> jax.Array:
            normal = jax.nn.log_softmax(logits)
            return jnp.take_along_axis(normal, index[..., None], axis=-1)[..., 0]

        logits = scoring.legal_only(self.function_logits(vector), legal)
        function = pick(logits, action["function"])
        delays = self.delay_logits(vector, action["function"])
        return function, pick(delays, delay_index(action["delay"]))

    def logits(self, latent: Latent, action: Action) -> Logits:
        """Returns every argument's logits given the arguments before it in `action`."""
        return self._logits(latent, action)[0]

    def _logits(self, latent: Latent, action: Action) -> tuple[Logits, jax.Array]:
        """Also returns the world head's features, from which one target is cheap to score."""
        present = self.present(action["function"])
        vector = latent.vector
        function = self.function_logits(vector)
        delay = self.delay_logits(vector, action["function"])
        context = self.embed(vector, action["function"], action["delay"])
        queued = self.heads["queued"](context)
        context += self._given("queued", action, present)
        repeat = self.heads["repeat"](context)
        context += self._given("repeat", action, present)
        keys = self.tag_key(latent.units)
        tags = self.tag_index(action["unit_tags"], latent)
        unit_tags = self._tag_logits(context, keys, latent.valid, tags)
        context += self._tags_given(tags, keys, present["unit_tags"])
        features = self.world.features(context, latent.planes)
        return Logits(
            function=function,
            delay=delay,
            queued=queued,
            repeat=repeat,
            unit_tags=unit_tags,
            target_unit_tag=self._target_logits(context, latent),
            world=self.world.logits(features),
        ), features

    def score(self, latent: Latent, action: Action) -> Scores:
        """Returns how likely the policy finds a given action."""
        logits, features = self._logits(latent, action)
        present = self.present(action["function"])
        given = {
            **action,
            "delay": delay_index(action["delay"]),
            "unit_tags": self.tag_index(action["unit_tags"], latent),
        }
        scores = scoring.score(logits, given, present)
        # The same number without normalising R * R logits, which jit then drops.
        cells = logits.world.shape[-1]
        world = self.world.log_prob(features, jnp.clip(action["world"], 0, cells - 1))
        possible = (action["world"] >= 0) & (action["world"] < cells)
        there = present["world"] & possible
        scores.log_prob["world"] = jnp.where(there, world, 0.0)
        scores.present["world"] = there.astype(jnp.float32)
        scores.impossible["world"] = (present["world"] & ~possible).astype(jnp.float32)
        return scores

    def sample_rest(
        self,
        latent: Latent,
        function: jax.Array,
        delay: jax.Array,
        key: jax.Array,
        temperature: Temperature = 1.0,
    ) -> Action:
        """Samples the other five arguments given function and delay [F].

        As in recorded actions, arguments that the function does not take are 0, and unused
        slots of unit_tags hold the end marker (0 for no_op).
        """
        keys = jax.random.split(key, 5)
        each = temperatures.of(temperature)
        present = self.present(function)
        action: Action = {"function": function, "delay": delay}
        context = self.embed(latent.vector, function, delay)
        for name, subkey, warmth in (
            ("queued", keys[0], each.queued),
            ("repeat", keys[1], each.repeat),
        ):
            drawn = layers.choose(subkey, self.heads[name](context), warmth)
            action[name] = jnp.where(present[name], drawn, 0)
            context += self._given(name, action, present)
        tag_keys = self.tag_key(latent.units)
        has_tags = present["unit_tags"]
        tags = self._sample_tags(
            keys[2], context, tag_keys, latent.valid, has_tags, each.unit_tags
        )
        context += self._tags_given(tags, tag_keys, has_tags)
        ended = jnp.where(tags == latent.valid.shape[-1], self.max_units, tags)
        empty = jnp.where(function == 0, 0, self.max_units)[:, None]
        action["unit_tags"] = jnp.where(has_tags[:, None], ended, empty)
        target = layers.choose(
            keys[3], self._target_logits(context, latent), each.target_unit_tag
        )
        action["target_unit_tag"] = jnp.where(present["target_unit_tag"], target, 0)
        features = self.world.features(context, latent.planes)
        world = self.world.sample(features, keys[4], each.world)
        action["world"] = jnp.where(present["world"], world, 0)
        return action

    def present(self, function: jax.Array) -> dict[str, jax.Array]:
        """Returns which arguments each of these functions takes, bool [F] by name."""
        table = jnp.asarray(argument_table(self.settings))[function]
        return {name: table[..., i] for i, name in enumerate(ARGUMENTS)}

    def tag_index(self, tags: jax.Array, latent: Latent) -> jax.Array:
        """Returns unit_tags with the number of rows of this batch as the end marker."""
        return jnp.where(tags >= self.max_units, latent.valid.shape[-1], tags)

    def _embed(self, name: str, index: jax.Array) -> jax.Array:
        return self.embeds[name](index)

    def _given(
        self, name: str, action: Action, present: dict[str, jax.Array]
    ) -> jax.Array:
        if name not in action:
            return jnp.zeros((), jnp.float32)
        return self._embed(name, action[name]) * present[name][:, None]

    def _tags_given(
        self, tags: jax.Array, keys: jax.Array, present: jax.Array
    ) -> jax.Array:
        selected, active = _selected_keys(tags, keys)
        count = jnp.maximum(active.sum(-1, keepdims=True), 1)
        return self.tag_embed(selected.sum(-2) / count) * present[:, None]

    def _target_logits(self, context: jax.Array, latent: Latent) -> jax.Array:
        query = self.target_query(context)
        keys = self.target_key(latent.units)
        logits = jnp.einsum("fp,fup->fu", query, keys) / np.sqrt(query.shape[-1])
        return jnp.where(latent.valid, logits, layers.MASKED)

    def _tag_step(
        self,
        context: jax.Array,
        total: jax.Array,
        count: jax.Array,
        last: jax.Array,
        keys: jax.Array,
    ) -> jax.Array:
        """Returns unmasked logits [F, N, U + 1] of N slots.

        context is [F, hidden]; total [F, N, P] is the sum of the keys selected before the
        slot; count and last [F, N] are how many, and the last of them (-1 for none).
        """
        mean = total / jnp.maximum(count, 1)[..., None]
        share = (count / self.slots)[..., None]
        past = self.tag_past(jnp.concatenate([mean, share], axis=-1))
        hidden = jax.nn.relu(context[:, None] + past)
        query = self.tag_query(hidden) / np.sqrt(keys.shape[-1])
        rows = jnp.einsum("fnp,fup->fnu", query, keys)
        # Recorded tags ascend, often without a gap. So a row that comes after the last
        # selected one has a weight, and the very next row another.
        order = self.tag_order(hidden)
        index = jnp.arange(keys.shape[1])
        rows += order[..., :1] * (index > last[..., None])
        rows += order[..., 1:] * (index == last[..., None] + 1)
        end = jnp.einsum("fnp,p->fn", query, self.tag_end[...])
        return jnp.concatenate([rows, end[..., None]], axis=-1)

    def _tag_logits(
        self,
        context: jax.Array,
        keys: jax.Array,
        valid: jax.Array,
        tags: jax.Array,
    ) -> jax.Array:
        """Returns the logits of all slots at once, since the given action is the past."""
        rows = keys.shape[1]
        selected, active = _selected_keys(tags, keys)
        total = jnp.cumsum(selected, axis=1) - selected
        count = jnp.cumsum(active, axis=1) - active
        before = jnp.concatenate([jnp.full_like(tags[:, :1], -1), tags[:, :-1]], axis=1)
        logits = self._tag_step(self.tag_context(context), total, count, before, keys)
        # The slot in which each row is selected; S for rows that never are.
        slot = jnp.arange(self.slots, dtype=jnp.int32)
        when = jax.vmap(
            lambda tag: (
                jnp.full(rows, self.slots, jnp.int32).at[tag].min(slot, mode="drop")
            )
        )(tags)
        free = valid[:, None] & (when[:, None] >= slot[:, None])
        end = jnp.ones((*free.shape[:2], 1), bool)
        return jnp.where(jnp.concatenate([free, end], -1), logits, layers.MASKED)

    def _sample_tags(
        self,
        key: jax.Array,
        context: jax.Array,
        keys: jax.Array,
        valid: jax.Array,
        has_tags: jax.Array,
        temperature: jax.Array | float,
    ) -> jax.Array:
        """Returns sampled rows [F, S], with the number of rows from the end marker on.

        Frames whose `has_tags` is False get the end marker alone. Sampling stops as soon as
        all frames have ended, because most selections fill few of the slots.
        """
        frames, rows, size = keys.shape
        hidden = self.tag_context(context)
        slot_keys = jax.random.split(key, self.slots)

        def step(now: tuple[jax.Array, _TagState]) -> tuple[jax.Array, _TagState]:
            slot, state = now
            logits = self._tag_step(
                hidden,
                state.total[:, None],
                state.number[:, None],
                state.last[:, None],
                keys,
            )[:, 0]
            allowed = jnp.pad(state.free, ((0, 0), (0, 1)), constant_values=True)
            masked = jnp.where(allowed, logits, layers.MASKED)
            drawn = layers.choose(slot_keys[slot], masked, temperature)
            tag = jnp.where(state.done, rows, drawn)
            done = tag == rows
            picked, _ = _selected_keys(tag[:, None], keys)
            return slot + 1, _TagState(
                tags=state.tags.at[:, slot].set(tag),
                total=state.total + picked[:, 0],
                number=state.number + ~done,
                last=tag,
                free=state.free & (jnp.arange(rows) != tag[:, None]),
                done=done,
            )

        def more(now: tuple[jax.Array, _TagState]) -> jax.Array:
            slot, state = now
            return (slot < self.slots) & ~state.done.all()

        start = _TagState(
            tags=jnp.full((frames, self.slots), rows, jnp.int32),
            total=jnp.zeros((frames, size), keys.dtype),
            number=jnp.zeros(frames, jnp.int32),
            last=jnp.full(frames, -1, jnp.int32),
            free=valid,
            done=~has_tags,
        )
        _, end = jax.lax.while_loop(more, step, (jnp.int32(0), start))
        return end.tags


def _selected_keys(tags: jax.Array, keys: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the keys of rows [F, N, P], 0 at end markers; and 1 where a tag is a row."""
    rows = keys.shape[1]
    active = (tags >= 0) & (tags < rows)
    index = jnp.clip(tags, 0, rows - 1)
    picked = jnp.take_along_axis(keys, index[..., None], axis=1)
    return picked * active[..., None], active.astype(jnp.int32)


def _maximum(spec: specs.ArraySpec) -> int:
    if not isinstance(spec.maximum, int):
        raise TypeError(f"{spec.name}: expected one maximum, found {spec.maximum!r}")
    return spec.maximum
