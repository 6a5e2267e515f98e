"""The compact network's policy: the same seven arguments, with groups of units and relative aims.

In: a `CompactLatent` of F frames. Out: `Scores` of a given action, or a sampled action, as from
`networks.policy`. The order of the arguments is that of the paper.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from starmill.learners.networks import layers, policy, scoring, temperatures
from starmill.learners.networks.compact import aim, selection
from starmill.learners.networks.compact.aim import Aim, Scene
from starmill.learners.networks.compact.config import CompactConfig
from starmill.learners.networks.compact.legal import LegalActions, Standing
from starmill.learners.networks.compact.selection import Related, Selection
from starmill.learners.networks.compact.unit_stream import Facts
from starmill.learners.networks.sampler import Sampler
from starmill.learners.networks.scoring import (
    ARGUMENTS,
    DELAYS,
    Action,
    Scores,
    delay_index,
)
from starmill.learners.networks.temperatures import Temperature
from starmill.schema import specs
from starmill.schema.settings import ConverterSettings


class CompactLatent(NamedTuple):
    """What the encoder makes of F frames.

    Attributes:
        vector: [F, D]. This is also MuZero's latent space.
        units: [F, U, d], one embedding a row.
        facts: what the observation shows of the units.
        planes: bool [F, side, side, planes], what an anchor's surroundings are cut from.
        turn: int32 [F], a number that varies between frames.
        standing: what decides which actions are legal; None if all are.
    """

    vector: jax.Array
    units: jax.Array
    facts: Facts
    planes: jax.Array
    turn: jax.Array
    standing: Standing | None = None


class _Choice(NamedTuple):
    """What scoring collects of one argument; every array is [F].

    Attributes:
        log_prob: of the given choice.
        entropy: of the distribution.
        correct: bool, whether the given choice is the likeliest.
        possible: bool, whether it is one that can be chosen.
    """

    log_prob: jax.Array
    entropy: jax.Array
    correct: jax.Array
    possible: jax.Array


class CompactPolicy(nnx.Module, Sampler[CompactLatent]):
    """The heads of the seven arguments."""

    def __init__(
        self, settings: ConverterSettings, config: CompactConfig, *, rngs: nnx.Rngs
    ) -> None:
        spec = specs.action_specs(settings)
        raw = specs.raw_settings(settings)
        self.settings = settings
        self.slots, self.end = raw.max_unit_selection_size, raw.max_unit_count
        self.cells = raw.resolution[0] ** 2
        vector, unit = config.vector, config.unit
        functions = settings.num_action_types
        sizes = {"function": functions, "delay": DELAYS, "queued": 2, "repeat": 3}
        self.names = tuple(name for name in ("queued", "repeat") if name in spec)
        self.heads = nnx.Dict(
            {n: layers.MLP(vector, vector, k, rngs=rngs) for n, k in sizes.items()}
        )
        self.embeds = nnx.Dict(
            {n: nnx.Embed(k, vector, rngs=rngs) for n, k in sizes.items()}
        )
        self.selection = Selection(
            vector=vector, unit=unit, functions=functions, rngs=rngs
        )
        if config.legal_actions:
            takes = policy.argument_table(settings).T.tolist()
            self.legal = LegalActions(
                settings,
                len(aim.planes_of(settings)),
                (
                    tuple(takes[ARGUMENTS.index("unit_tags")]),
                    tuple(takes[ARGUMENTS.index("target_unit_tag")]),
                ),
            )
        self.aim = Aim(
            settings,
            vector=vector,
            unit=unit,
            anchors=config.anchors,
            reach=config.reach,
            patch=config.patch,
            hidden=config.offset,
            areas=config.areas,
            resolution=raw.resolution[0],
            rngs=rngs,
        )

    def function_logits(self, vector: jax.Array) -> jax.Array:
        """Returns the logits of `function` from latents [..., D], legal or not."""
        return self.heads["function"](vector)

    def delay_logits(self, vector: jax.Array, function: jax.Array) -> jax.Array:
        """Returns the logits of `delay` given the function; index 0 is a delay of 1."""
        return self.heads["delay"](vector + self.embeds["function"](function))

    def embed(
        self, vector: jax.Array, function: jax.Array, delay: jax.Array
    ) -> jax.Array:
        """Returns the latent with function and delay added, [..., D]."""
        vector = vector + self.embeds["function"](function)
        return vector + self.embeds["delay"](delay_index(delay))

    def function_delay_log_probs(
        self, vector: jax.Array, action: Action, legal: jax.Array | None = None
    ) -> tuple[jax.Array, jax.Array]:
        """Returns the log-probabilities of the given function and delay, [...] each."""
        logits = scoring.legal_only(self.function_logits(vector), legal)
        function = _log_prob(logits, action["function"])
        delays = self.delay_logits(vector, action["function"])
        return function, _log_prob(delays, delay_index(action["delay"]))

    def present(self, function: jax.Array) -> dict[str, jax.Array]:
        """Returns which arguments each of these functions takes, bool [F] by name."""
        table = jnp.asarray(policy.argument_table(self.settings))[function]
        return {name: table[..., i] for i, name in enumerate(ARGUMENTS)}

    def score(self, latent: CompactLatent, action: Action) -> Scores:
        """Returns how likely the policy finds a given action.

        The log-probabilities of unit_tags and world are bounds from below (`selection`, `aim`);
        the entropy of world is that of its anchor.
        """
        function, facts = action["function"], latent.facts
        present = self.present(function)
        delays = self.delay_logits(latent.vector, function)
        choices = {
            "function": _choice(
                scoring.legal_only(
                    self.function_logits(latent.vector), scoring.legal_functions(latent)
                ),
                function,
            ),
            "delay": _choice(delays, delay_index(action["delay"])),
        }
        context = self.embed(latent.vector, function, action["delay"])
        for name in self.names:
            choices[name] = _choice(self.heads[name](context), action[name])
            context += self.embeds[name](action[name]) * present[name][:, None]
        own = self._commandable(function, latent)
        given = selection.members(action["unit_tags"], own, latent.turn)
        commanded = present["unit_tags"] & (given.total > 0)
        heads = self.selection
        first = heads.first_logits(context, function, latent.units, own)
        related = heads.relate(
            context, function, latent.units, facts, given.first, commanded
        )
        choices["unit_tags"] = _Choice(
            *selection.log_prob(first, related.also, own, given), given.total > 0
        )
        target = jnp.where(
            self._targetable(function, latent), related.target, layers.MASKED
        )
        is_target = facts.numbers == action["target_unit_tag"][:, None]
        # A target among the rows that are not looked at is impossible.
        row = jnp.where(is_target.any(-1), is_target.argmax(-1), -1)
        choices["target_unit_tag"] = _choice(target, row)
        scene = self._scene(context, function, latent, given.first, commanded, related)
        cell = jnp.clip(action["world"], 0, self.cells - 1)
        world, is_likeliest = self.aim.log_prob(scene, cell)
        anchor = self.aim.anchor_logits(scene)
        choices["world"] = _Choice(
            world, _entropy(anchor), is_likeliest, cell == action["world"]
        )
        return _scores(choices, present)

    def sample_rest(
        self,
        latent: CompactLatent,
        function: jax.Array,
        delay: jax.Array,
        key: jax.Array,
        temperature: Temperature = 1.0,
    ) -> Action:
        """Samples the other five arguments given function and delay [F].

        As in recorded actions, arguments that the function does not take are 0, and unused
        slots of unit_tags hold the end marker (0 for no_op).
        """
        keys = dict(zip(ARGUMENTS[2:], jax.random.split(key, 5), strict=True))
        each = temperatures.of(temperature)._asdict()
        present = self.present(function)
        action: Action = {"function": function, "delay": delay}
        context = self.embed(latent.vector, function, delay)
        for name in self.names:
            drawn = layers.choose(keys[name], self.heads[name](context), each[name])
            action[name] = jnp.where(present[name], drawn, 0)
            context += self.embeds[name](action[name]) * present[name][:, None]
        heads, facts, units = self.selection, latent.facts, latent.units
        first_key, others_key = jax.random.split(keys["unit_tags"])
        own = self._commandable(function, latent)
        first = heads.sample_first(
            context, function, units, own, first_key, each["unit_tags"]
        )
        commanded = present["unit_tags"] & facts.own.any(-1)
        related = heads.relate(context, function, units, facts, first, commanded)
        given = selection.sample_others(
            related.also, own, first, others_key, each["unit_tags"]
        )
        tags = selection.tags_of(given.rows, facts, self.slots, self.end)
        empty = jnp.where(function == 0, 0, self.end)[:, None]
        action["unit_tags"] = jnp.where(present["unit_tags"][:, None], tags, empty)
        target = layers.choose(
            keys["target_unit_tag"],
            jnp.where(
                self._targetable(function, latent), related.target, layers.MASKED
            ),
            each["target_unit_tag"],
        )
        target = jnp.take_along_axis(facts.numbers, target[:, None], axis=1)[:, 0]
        action["target_unit_tag"] = jnp.where(present["target_unit_tag"], target, 0)
        scene = self._scene(context, function, latent, first, commanded, related)
        world = self.aim.sample(scene, keys["world"], each["world"])
        action["world"] = jnp.where(present["world"], world, 0)
        return action

    def _commandable(self, function: jax.Array, latent: CompactLatent) -> Facts:
        """Returns the facts with only those units as own ones that the function may command."""
        facts, standing = latent.facts, latent.standing
        if standing is None:
            return facts
        return facts._replace(own=self.legal.commandable(function, standing, facts))

    def _targetable(self, function: jax.Array, latent: CompactLatent) -> jax.Array:
        if latent.standing is None:
            return latent.facts.valid
        return self.legal.targetable(function, latent.standing, latent.facts)

    def _scene(
        self,
        context: jax.Array,
        function: jax.Array,
        latent: CompactLatent,
        first: jax.Array,
        commanded: jax.Array,
        related: Related,
    ) -> Scene:
        first_unit = selection.picked(latent.units, first) * commanded[:, None]
        is_free = latent.standing is None
        return Scene(
            context,
            first_unit,
            related.anchor,
            latent.units,
            latent.facts,
            latent.planes,
            None if is_free else self.legal.ground(function),
            None if is_free else self.legal.spacing(function, latent.facts),
        )


def _log_prob(logits: jax.Array, index: jax.Array) -> jax.Array:
    normal = jax.nn.log_softmax(logits)
    return jnp.take_along_axis(normal, index[..., None], axis=-1)[..., 0]


def _entropy(normal: jax.Array) -> jax.Array:
    return -(jnp.exp(normal) * jnp.maximum(normal, layers.MASKED)).sum(-1)


def _choice(logits: jax.Array, given: jax.Array) -> _Choice:
    inside = jnp.clip(given, 0, logits.shape[-1] - 1)
    raw = jnp.take_along_axis(logits, inside[..., None], axis=-1)[..., 0]
    normal = jax.nn.log_softmax(logits)
    return _Choice(
        log_prob=_log_prob(logits, inside),
        entropy=_entropy(normal),
        correct=logits.argmax(-1) == given,
        possible=(raw > layers.MASKED / 2) & (inside == given),
    )


def _scores(choices: dict[str, _Choice], present: dict[str, jax.Array]) -> Scores:
    """Returns scores in which absent and impossible arguments contribute nothing."""
    log_prob, entropy, correct, there, impossible = {}, {}, {}, {}, {}
    for name, choice in choices.items():
        counts = present[name] & choice.possible
        log_prob[name] = jnp.where(counts, choice.log_prob, 0.0)
        entropy[name] = jnp.where(counts, choice.entropy, 0.0)
        correct[name] = (counts & choice.correct).astype(jnp.float32)
        there[name] = counts.astype(jnp.float32)
        impossible[name] = (present[name] & ~choice.possible).astype(jnp.float32)
    return Scores(
        log_prob, entropy, correct, there, impossible, slots=there["unit_tags"]
    )
