"""The equations of all algorithms in float64 numpy, written as in the papers and without code of accel_rl.

The argument `p` maps the names of a model's parameters to arrays. Shapes: T steps, B environments, N samples, A
actions, Z atoms.
"""

import math

import numpy as np

# -- networks --------------------------------------------------------------------------------------


def linear(p, name, x):
    return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]


OF_NORMS = {"epsilon": 1e-5}
"""Epsilon of layer norms: 1e-5 as in torch, or with --layer-norm before-channels 1e-6 as in flax."""


def layer_norm(p, name, x):
    """Layer norm of x [N, F] (Ba et al. 2016, eq. 3). Returns x itself if `p` has no layer norm called `name`."""
    if f"{name}.weight" not in p:
        return x
    centered = x - x.mean(-1, keepdims=True)
    variance = (centered**2).mean(-1, keepdims=True)
    return centered / np.sqrt(variance + OF_NORMS["epsilon"]) * p[f"{name}.weight"] + p[f"{name}.bias"]


def mlp(p, name, x):
    """Linear layers with tanh, each with a layer norm before or after tanh if `p` has parameters of layer norms."""
    modules = sorted({int(n.split(".layers.")[1].split(".")[0]) for n in p if n.startswith(f"{name}.layers.")})
    maps = [i for i in modules if p[f"{name}.layers.{i}.weight"].ndim == 2]
    for first in maps:
        x = linear(p, f"{name}.layers.{first}", x)
        if len(modules) == len(maps):
            x = np.tanh(x)
        else:  # layer norms around tanh
            x = layer_norm(p, f"{name}.layers.{first + 2}", np.tanh(layer_norm(p, f"{name}.layers.{first + 1}", x)))
    return x


def actor_critic(p, obs):
    """obs [N, F] -> logits [N, A], value [N]."""
    logits = linear(p, "heads.policy", mlp(p, "body", obs))
    return logits, linear(p, "heads.value", mlp(p, "value_body", obs))[:, 0]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def unrolled(p, obs, first, state, also=None):
    """obs [T, n, F], first [T, n], state [n, 2 units] -> h [T, n, units], states [T, n, 2 units]. The input of the LSTM
    is the concatenation of the features and `also` [T, n, M]."""
    h, c = np.split(state, 2, -1)
    states = []
    for t in range(len(obs)):
        h, c = (np.where(first[t][:, None], 0.0, s) for s in (h, c))
        x = mlp(p, "body", obs[t])
        x = x if also is None else np.concatenate([x, also[t]], -1)
        gates = x @ p["lstm.weight_ih"].T + p["lstm.bias_ih"]
        gates = gates + h @ p["lstm.weight_hh"].T + p["lstm.bias_hh"]
        i, f, g, o = np.split(gates, 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(np.concatenate([h, c], -1))
    after = np.stack(states)
    return after[..., : after.shape[-1] // 2], after


def recurrent(p, obs, first, state):
    """obs [T, n, F], first [T, n], state [n, 2 units] -> logits [T, n, A], value [T, n], states [T, n, 2 units]."""
    h, after = unrolled(p, obs, first, state)
    return linear(p, "heads.policy", h), linear(p, "heads.value", h)[..., 0], after


def recurrent_q(p, obs, first, state):
    """obs [T, n, F], first [T, n], state [n, 2 units] -> q [T, n, A], states [T, n, 2 units]."""
    h, after = unrolled(p, obs, first, state)
    return linear(p, "value", h), after


def sequence_q(p, obs, first, state, action, reward, actions, noise=None):
    """obs [T, n, F], first [T, n], state [n, 2 units], the action and reward before each step [T, n] -> q [T, n, A],
    states [T, n, 2 units] (Kapturowski et al. 2019, section 2.3)."""
    also = np.zeros((*first.shape, actions + 1))
    for t, n in np.argwhere(~first & np.isfinite(reward)):
        also[t, n, int(action[t, n])] = 1
        also[t, n, -1] = reward[t, n]
    h, after = unrolled(p, obs, first, state, also)
    return heads_of(p, h.reshape(-1, h.shape[-1]), actions, 1, noise).reshape(*first.shape, actions), after


def stream_of(p, name, x, noise):
    """One stream of a Q-network: a hidden layer with ReLU, and an output layer.

    The dict `noise` maps the name of a noisy layer to its noise vectors (noise_in, noise_out).
    """

    def relu(y):
        return layer_norm(p, f"{name}.relu.after", np.maximum(layer_norm(p, f"{name}.relu.before", y), 0))

    for layer, activation in (("hidden", relu), ("out", lambda y: y)):
        full = f"{name}.{layer}"
        weight, bias = p[f"{full}.weight"], p[f"{full}.bias"]
        if noise:  # Fortunato et al. 2018, eq. 9
            e_in, e_out = noise[full]
            weight = weight + p[f"{full}.sigma_weight"] * np.outer(e_out, e_in)
            bias = bias + p[f"{full}.sigma_bias"] * e_out
        x = activation(x @ weight.T + bias)
    return x


def q_network(p, obs, actions, atoms=1, noise=None):
    """obs [N, F] -> outputs [N, A, Z]. The network is dueling (Wang et al. 2016, eq. 9) if `p` has parameters of a
    value stream."""
    return heads_of(p, mlp(p, "body", obs), actions, atoms, noise)


def heads_of(p, x, actions, atoms, noise):
    """Features x [N, F] -> outputs [N, A, Z]."""
    advantage = stream_of(p, "advantage", x, noise).reshape(-1, actions, atoms)
    if "value.out.weight" not in p:
        return advantage
    value = stream_of(p, "value", x, noise).reshape(-1, 1, atoms)
    return value + advantage - advantage.mean(1, keepdims=True)


def implicit(p, obs, actions, tau, noise=None, first=1):
    """obs [N, F], tau [N, n] -> quantiles [N, A, n] (Dabney et al. 2018, arXiv:1806.06923, eq. 4; dueling streams of
    each quantile: Clark et al. 2024)."""
    x = mlp(p, "body", obs)
    cosines = p["embedding.linear.weight"].shape[1]
    out = []
    for k in range(tau.shape[1]):
        waves = np.stack([np.cos(np.pi * i * tau[:, k]) for i in range(first, first + cosines)], 1)
        product = x * np.maximum(linear(p, "embedding.linear", waves), 0)
        quantile = stream_of(p, "advantage", product, noise)
        if "value.out.weight" in p:
            quantile = quantile - quantile.mean(1, keepdims=True) + stream_of(p, "value", product, noise)
        out.append(quantile)
    return np.stack(out, -1)


# -- returns ---------------------------------------------------------------------------------------


def clipped(reward, bound):
    return max(-bound, min(bound, reward)) if bound else reward


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def log_pi(logits, action):
    """log pi(a | s). logits [N, A], action [N] -> [N]."""
    return np.log(softmax(logits))[np.arange(len(action)), action]


def entropy(logits):
    p = softmax(logits)
    return -(p * np.log(p)).sum(-1)


def gae(r, value, bootstrap, cut_value, gamma, lambda_, bound):
    """A_t = delta_t + gamma lambda A_{t+1}, Schulman et al. 2016. `r` has a rollout's arrays; cut_value [T, B] is the
    value of the last observation of a truncated episode."""
    T, B = value.shape
    advantage = np.full((T, B), np.nan)
    for b in range(B):
        after = 0.0
        for t in reversed(range(T)):
            if not r.valid[t, b]:
                after = 0.0
                continue
            following = bootstrap[b] if t == T - 1 else value[t + 1, b]
            if r.truncated[t, b]:
                following = cut_value[t, b]
            if r.terminated[t, b]:
                following = 0.0
            delta = clipped(r.reward[t, b], bound) + gamma * following - value[t, b]
            goes_on = not (r.terminated[t, b] or r.truncated[t, b])
            after = delta + (gamma * lambda_ * after if goes_on else 0.0)
            advantage[t, b] = after
    return advantage


def vtrace(r, valid, ratio, value, bootstrap, cut_value, c):
    """Espeholt et al. 2018, eq. 1 and section 4.2 -> (targets, policy-gradient advantages) [T, B]."""
    T, B = value.shape
    target, advantage = np.full((T, B), np.nan), np.full((T, B), np.nan)
    for b in range(B):
        for t in reversed(range(T)):
            if not valid[t, b]:
                continue
            v_next = bootstrap[b] if t == T - 1 else value[t + 1, b]
            target_next = bootstrap[b] if t == T - 1 else target[t + 1, b]
            gamma = c.gamma
            if r.truncated[t, b]:
                v_next = target_next = cut_value[t, b]
            if r.terminated[t, b]:
                v_next = target_next = gamma = 0.0
            rho = min(c.rho_clip, ratio[t, b])
            carried = c.gae_lambda * min(c.c_clip, ratio[t, b])
            reward = clipped(r.reward[t, b], c.reward_clip)
            delta = rho * (reward + gamma * v_next - value[t, b])
            target[t, b] = value[t, b] + delta
            if gamma and not r.truncated[t, b]:
                target[t, b] += gamma * carried * (target_next - v_next)
            advantage[t, b] = rho * (reward + gamma * target_next - value[t, b])
    return target, advantage


def n_step(s, t, b, n, gamma, bound):
    """Return the n-step return from step t of the stream `s` as (sum of discounted rewards, bootstrap discount,
    bootstrap observation)."""
    total, discount = 0.0, 1.0
    for k in range(n):
        total += discount * clipped(s.reward[t + k, b], bound)
        discount *= gamma
        if s.terminated[t + k, b]:
            return total, 0.0, s.frames[t, b]
        if s.ended[t + k, b]:
            return total, discount, s.final_frames[t + k, b]
    return total, discount, s.frames[t + n, b]


def rescaled(x, epsilon):
    """Rescale a value: h(x) of Pohlen et al. 2018, proposition A.2."""
    return math.copysign(math.sqrt(abs(x) + 1) - 1, x) + epsilon * x if epsilon else x


def unscaled(y, epsilon):
    """Return the x with rescaled(x) = y, found by bisection."""
    if not epsilon:
        return y
    high = 1.0
    while rescaled(high, epsilon) < abs(y):
        high *= 2
    low = 0.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if rescaled(middle, epsilon) < abs(y) else (low, middle)
    return math.copysign(high, y)


def is_known(s, t, b, n):
    """Whether the steps and the bootstrap observation of the n-step return from step t were sampled."""
    for k in range(n):
        if not s.valid[t + k, b] or not (s.ended[t + k, b] or s.age[t + k + 1, b] > 0):
            return False
        if s.terminated[t + k, b] or s.ended[t + k, b]:
            return True
    return True


# -- losses ----------------------------------------------------------------------------------------


def policy_gradient_loss(c, logits, value, action, advantage, target):
    """-E[log pi A] + c_v E[(R - V)^2] - c_e E[H], Mnih et al. 2016."""
    policy = -np.mean(log_pi(logits, action) * advantage)
    return (
        policy + c.value_coefficient * np.mean((target - value) ** 2) - c.entropy_coefficient * entropy(logits).mean()
    )


def ppo_loss(c, clip, logits, value, action, advantage, target, old_log_pi, old_value):
    """Schulman et al. 2017, eq. 7 and 9, sample by sample -> (loss, KL).

    A batch may have no samples, because the worker process of its environments died.
    """
    policy = error = kl = 0.0
    if not len(action):
        return 0.0, 0.0
    for i, ratio in enumerate(np.exp(log_pi(logits, action) - old_log_pi)):
        policy -= min(ratio * advantage[i], max(1 - clip, min(1 + clip, ratio)) * advantage[i])
        squared = (value[i] - target[i]) ** 2
        if c.value_clip:
            near = old_value[i] + max(-c.value_clip, min(c.value_clip, value[i] - old_value[i]))
            squared = max(squared, (near - target[i]) ** 2)
        error += squared
        kl += ratio - 1 - math.log(ratio)
    n = len(action)
    loss = policy / n + c.value_coefficient * error / n - c.entropy_coefficient * entropy(logits).mean()
    return loss, kl / n


def huber(error, delta):
    size = abs(error)
    return error**2 / 2 if not delta or size <= delta else delta * (size - delta / 2)


def projected(returns, p, atoms):
    """Project the probabilities p [Z] at `returns` [Z] onto the atoms [Z] (Bellemare et al. 2017, algorithm 1)."""
    low, high, width = atoms[0], atoms[-1], atoms[1] - atoms[0]
    mass = np.zeros(len(atoms))
    for x, share in zip(returns, p, strict=True):
        place = (max(low, min(high, x)) - low) / width
        left = min(int(place), len(atoms) - 2)
        mass[left] += share * (left + 1 - place)
        mass[left + 1] += share * (place - left)
    return mass


def bootstrap(c, reward, discount, action, chooser, before):
    """Return the rewards [N] and the probabilities of the next action [N, A].

    For each sampled transition (s, a, s'), `chooser` [N, A] has the action values of s', and `before` [N, A] those of
    s. With Munchausen's term, the rewards and probabilities are those of Vieillard et al. 2020, eq. 1. Without
    Munchausen's term, the next action is greedy.
    """
    if not c.munchausen:
        return reward, np.eye(chooser.shape[1])[chooser.argmax(1)]
    policy = softmax(chooser / c.munchausen_temperature)
    rewards = []
    for i, a in enumerate(action):
        entropy = -sum(x * math.log(x) for x in policy[i] if x > 0)
        log_policy = math.log(max(softmax(before[i] / c.munchausen_temperature)[a], 1e-300))
        bonus = max(-1.0, c.munchausen_temperature * log_policy)
        rewards.append(reward[i] + c.munchausen * bonus + discount[i] * c.munchausen_temperature * entropy)
    return np.array(rewards), policy


def values_of(c, out):
    """Action values [N, A] of a network's outputs [N, A, Z]."""
    if hasattr(c, "atoms"):
        return softmax(out) @ np.linspace(c.v_min, c.v_max, c.atoms)
    return out.mean(-1)


def q_targets(c, reward, discount, out_t, policy):
    """Targets of Q-learning: r + gamma sum_a pi(a) q'(s', a) [N]; out_t [N, A, 1] are the target network's outputs."""
    return np.array([reward[i] + discount[i] * policy[i] @ out_t[i, :, 0] for i in range(len(reward))])


def q_loss(c, out, action, weight, target):
    """-> (loss, errors [N])."""
    error = np.array([target[i] - out[i, a, 0] for i, a in enumerate(action)])
    return np.mean([w * huber(e, c.huber) for w, e in zip(weight, error, strict=True)]), error


def categorical_targets(c, reward, discount, out_t, policy):
    """Projected distributions [N, Z]."""
    atoms = np.linspace(c.v_min, c.v_max, c.atoms)
    returns = [r + d * atoms for r, d in zip(reward, discount, strict=True)]
    return np.array([projected(x, policy[i] @ softmax(out_t[i]), atoms) for i, x in enumerate(returns)])


def categorical_loss(c, out, action, weight, target):
    """Cross entropy -> (loss, KL(target || prediction) or cross entropy [N])."""
    logs = [out[i, a] - out[i, a].max() for i, a in enumerate(action)]
    logs = [
        x - np.log(np.exp(x).sum()) for x in logs
    ]  # The logarithm is computed without the softmax, which may underflow to 0.
    cross = [-(m[m > 0] * log[m > 0]).sum() for m, log in zip(target, logs, strict=True)]
    entropy = [-(m[m > 0] * np.log(m[m > 0])).sum() for m in target]
    error = cross if c.priority == "cross-entropy" else [x - h for x, h in zip(cross, entropy, strict=True)]
    return np.mean([w * x for w, x in zip(weight, cross, strict=True)]), np.array(error)


def quantile_targets(c, reward, discount, out_t, policy):
    """Quantiles [N, Z] of the target distribution (Dabney et al. 2018, algorithm 1)."""
    return np.array([reward[i] + discount[i] * policy[i] @ out_t[i] for i in range(len(reward))])


def quantile_loss(c, out, action, weight, target, tau=None):
    """Dabney et al. 2018, eq. 10, one pair of quantiles at a time -> (loss, losses [N]).

    With random quantile fractions tau [N, n], the second result is sum_i mean_j |error| [N].
    """
    losses, errors = [], []
    for i, a in enumerate(action):
        total = size = 0.0
        for k, theta in enumerate(out[i, a]):
            share = (2 * k + 1) / (2 * c.quantiles) if tau is None else tau[i, k]
            for y in target[i]:
                u = y - theta
                rho = abs(share - (u < 0)) * (huber(u, c.huber) / c.huber if c.huber else abs(u))
                total += rho / len(target[i])
                size += abs(u) / len(target[i])
        losses.append(total)
        errors.append(size)
    mean = np.mean([w * x for w, x in zip(weight, losses, strict=True)])
    return mean, np.array(losses if tau is None else errors)


# -- the step --------------------------------------------------------------------------------------


class Steps:
    """An optimizer whose `step` returns the change of the parameters."""

    def __init__(self, name, alpha, epsilon):
        self.name, self.alpha, self.epsilon = name, alpha, epsilon
        self.mean = self.square = 0.0
        self.steps = 0
        self.is_exact = ...
        """A mask of the parameters whose steps are compared with float32: false for a parameter whose variance is the
        difference of two nearly equal numbers."""

    def step(self, g, rate):
        self.steps += 1
        if self.name.startswith("adam"):  # Kingma & Ba 2014
            self.mean = 0.9 * self.mean + 0.1 * g
            self.square = 0.999 * self.square + 0.001 * g**2
            m_hat, root = self.mean / (1 - 0.9**self.steps), math.sqrt(1 - 0.999**self.steps)
            if self.name == "adam":
                return -rate * m_hat / (np.sqrt(self.square) / root + self.epsilon)
            return -rate * root * m_hat / (np.sqrt(self.square) + self.epsilon)
        if self.name == "radam":  # Liu et al. 2020, algorithm 2
            t, longest = self.steps, 2 / (1 - 0.999) - 1
            self.mean = 0.9 * self.mean + 0.1 * g
            self.square = 0.999 * self.square + 0.001 * g**2
            m_hat = self.mean / (1 - 0.9**t)
            length = longest - 2 * t * 0.999**t / (1 - 0.999**t)
            if length <= 5:
                return -rate * m_hat
            r = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
            adaptive = math.sqrt(1 - 0.999**t) / (np.sqrt(self.square) + self.epsilon)
            return -rate * math.sqrt(r) * m_hat * adaptive
        if self.name == "adagrad":  # Duchi et al. 2011
            self.square = self.square + g**2
            return -rate * g / (np.sqrt(self.square) + self.epsilon)
        self.square = self.alpha * self.square + (1 - self.alpha) * g**2
        variance = self.square
        if "centered" in self.name:  # Graves 2013, eq. 38 to 41
            self.mean = self.alpha * self.mean + (1 - self.alpha) * g
            variance = np.maximum(self.square - self.mean**2, 0)
            self.is_exact = variance > 1e-3 * self.square
        if self.name.endswith("-torch"):
            return -rate * g / (np.sqrt(variance) + self.epsilon)
        return -rate * g / np.sqrt(variance + self.epsilon)


def clipped_by_norm(g, bound):
    norm = np.sqrt((g**2).sum())
    return g * min(1.0, bound / (norm + 1e-6)) if bound else g


def decayed(schedule, progress):
    return 1 - progress if schedule == "linear" else 1.0


def a2c_rate(c, batch, progress):
    """A2C's learning rate with batch scaling, bound, warmup and decay (Stooke & Abbeel 2018, section 5.3)."""
    growth = {"none": 1.0, "linear": batch / c.reference_batch, "sqrt": math.sqrt(batch / c.reference_batch)}
    rate = c.learning_rate * growth[c.learning_rate_scaling]
    if c.learning_rate_scaling != "none":
        rate = min(rate, max(c.learning_rate, c.max_learning_rate))
    if progress < c.warmup:
        rate = c.learning_rate + (rate - c.learning_rate) * progress / c.warmup
    return rate * decayed(c.learning_rate_schedule, progress)
