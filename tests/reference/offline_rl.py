"""V-trace, emphatic traces, discounts, schedules and Adam as loops over plain numbers."""

import math

import numpy as np


def vtrace_targets(values, rewards, discounts, ratios, rho_clip, c_clip):
    """v[t] for one row; every argument [K], with the reward at t + 1 in rewards[t]."""
    steps = len(values)
    out = np.zeros(steps - 1)
    for t in range(steps - 1):
        total = values[t]
        for u in range(t, steps - 1):
            product = 1.0
            for k in range(t, u):
                product *= discounts[k] * min(c_clip, ratios[k])
            delta = rewards[u] + discounts[u] * values[u + 1] - values[u]
            total += product * min(rho_clip, ratios[u]) * delta
        out[t] = total
    return out


def vtrace_advantages(values, rewards, discounts, ratios, rho_clip, c_clip):
    """rho[t] (r[t+1] + gamma[t] v[t+1] - V[t]) for one row."""
    targets = [*vtrace_targets(values, rewards, discounts, ratios, rho_clip, c_clip)]
    targets.append(values[-1])
    return np.array(
        [
            min(rho_clip, ratios[t])
            * (rewards[t] + discounts[t] * targets[t + 1] - values[t])
            for t in range(len(values) - 1)
        ]
    )


def emphatic_traces(factors, n):
    """F of a whole stream from its beginning; factors[t] = gamma[t] * rho[t]."""
    out = []
    for t in range(len(factors)):
        if t < n:
            out.append(1.0)
            continue
        product = 1.0
        for p in range(1, n + 1):
            product *= factors[t - p]
        out.append(product * out[t - n] + 1.0)
    return np.array(out)


def discounts(loops, last, gamma):
    """gamma ** (loops between t and t + 1) of one episode, 0 from and into its last step."""
    out = []
    for t in range(len(loops)):
        ends = t in (last - 1, last)
        after = loops[t + 1] - loops[t] if t + 1 < len(loops) else 0
        out.append(0.0 if ends else gamma**after)
    return np.array(out)


def cosine(frames, rate, total, ramp_in):
    """The learning rate after a number of frames."""
    value = rate / 2 * (math.cos(math.pi * frames / total) + 1)
    return value * min(1.0, frames / ramp_in) if ramp_in else value


def adam(gradients, rates, b1, b2, eps, clip, clip_norm, decay, start):
    """Parameters after each gradient; clip is "before", "after" or "none"."""
    mean = np.zeros_like(start)
    square = np.zeros_like(start)
    params = start.copy()
    out = []
    for step, (gradient, rate) in enumerate(zip(gradients, rates, strict=True), 1):
        if clip == "before":
            gradient = clipped(gradient, clip_norm)
        mean = b1 * mean + (1 - b1) * gradient
        square = b2 * square + (1 - b2) * gradient**2
        move = (mean / (1 - b1**step)) / (np.sqrt(square / (1 - b2**step)) + eps)
        if clip == "after":
            move = clipped(move, clip_norm)
        params = params - rate * (move + decay * params)
        out.append(params.copy())
    return out


def clipped(vector, norm):
    """The vector, shortened to the norm if it is longer."""
    length = math.sqrt(float((vector**2).sum()))
    return vector * min(1.0, norm / length)


def sarsa_value(q, target, logits, action):
    """What a step is worth to the one before it: the recorded action's target Q."""
    return target[action]


def bcq_value(q, target, logits, action, threshold):
    """The target Q of the action with the highest Q among the likely ones."""
    likely = [
        a for a in range(len(q)) if logits[a] - max(logits) >= math.log(threshold)
    ]
    return target[max(likely, key=lambda a: q[a])]


def q_error(q, target, logits, actions, delays, reward, step_type, gamma, value_of):
    """The sum of half the squared errors of one row [K], without episodes' last steps."""
    total = 0.0
    for t in range(len(q) - 1):
        if step_type[t] == 2:
            continue
        goal = reward[t + 1]
        if step_type[t + 1] != 2:
            later = value_of(q[t + 1], target[t + 1], logits[t + 1], actions[t + 1])
            goal += gamma ** delays[t] * later
        total += 0.5 * (q[t][actions[t]] - goal) ** 2
    return total


def ranking(q, action, outcome, margin, temperature):
    """How far others' Q is above the recorded action's, for one frame."""
    total = 0.0
    for other in range(len(q)):
        if other != action:
            total += max(q[other] - q[action] + margin, 0.0) ** 2
    return total * math.exp((outcome - 1) / temperature)


def policy_advantage(q, logits, action):
    """Q(a) - E_pi Q, for one frame."""
    weights = [math.exp(x - max(logits)) for x in logits]
    mean = sum(w * v for w, v in zip(weights, q, strict=True)) / sum(weights)
    return q[action] - mean


def gae(values, rewards, discounts, decay):
    """Generalised advantages of one row as a double sum; rewards[t] is that at t + 1."""
    steps = len(values)
    out = []
    for t in range(steps - 1):
        total, product = 0.0, 1.0
        for u in range(t, steps - 1):
            total += product * (rewards[u] + discounts[u] * values[u + 1] - values[u])
            product *= discounts[u] * decay
        out.append(total)
    return np.array(out)


def clipped_surrogate(ratio, advantage, epsilon):
    """PPO's loss of one step, case by case."""
    if advantage >= 0:
        return -advantage * min(ratio, 1 + epsilon)
    return -advantage * max(ratio, 1 - epsilon)


def critic_weighted(logits, q, temperature):
    """Probabilities of pi(a) exp(Q(a) / temperature)."""
    weights = [
        math.exp(a) * math.exp(b / temperature) for a, b in zip(logits, q, strict=True)
    ]
    return np.array(weights) / sum(weights)
