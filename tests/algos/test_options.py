"""Losses, gradients, steps and numbers of updates at every value of every option equal those of tests/algos/oracle.py.

A test case passes a stream of experience to an algorithm as the training loop does. At each update the loss, its
gradient along a random direction, and the optimizer step must equal those that the oracle computes from the same
parameters. The gradient must equal a finite difference of the oracle's loss at fixed targets, so that a test fails if
an algorithm's gradient flows through its target.
"""

import functools
import itertools
import math
import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from accel_rl.algos.btr import BTRConfig
from accel_rl.algos.c51 import C51Config
from accel_rl.algos.qrdqn import QRDQNConfig
from accel_rl.algos.r2d2 import R2D2Config
from accel_rl.optim.flat import FlatParameters, clip_by_norm_
from tests.algos import oracle, sequences
from tests.algos.made_up import ingest
from tests.algos.options import ALGORITHMS, NO_LOSS_OF, NUMBERS, WITH, changed, options_of, settings
from tests.algos.streams import ACTIONS, SPEC, B, Stream, act
from tests.marks import slow

T, PROGRESS = 5, 0.25
ROLLOUTS = {"a2c": 5, "ppo": 3, "pqn": 3, "impala": 6}
Q_ROLLOUTS = 8  # In Q-learning, the agent acts randomly in the first two rollouts.
SEQUENCE_ROLLOUTS = 12
OPTIONS = [option for name in ALGORITHMS for option in options_of(name)[0]]
CASES = [(option, value) for option in OPTIONS for value in option.values]
# The fast tests of the algorithms in OWN_EQUATIONS cover only the listed options: A2C or DQN share the other options.
OWN_EQUATIONS = {
    "ppo": {
        *("gae_lambda", "clip", "clip_schedule", "value_clip", "epochs", "minibatch", "normalize_advantage"),
        *("target_kl", "schedule_kl", "lstm", "value_coefficient", "entropy_coefficient"),
    },
    "pqn": {"gamma", "gae_lambda", "reward_clip", "epochs", "minibatch", "lstm", "learning_rate"},
    "impala": {"gamma", "gae_lambda", "window", "batches", "rho_clip", "c_clip", "lstm", "value_coefficient"},
    "c51": {"gamma", "reward_clip", "n_step", "double", "dueling", "noisy", "atoms", "v_min", "v_max", "optimizer_eps"},
    "dqn": {"munchausen", "munchausen_temperature", "munchausen_policy"},
    "qrdqn": {"double", "quantiles", "huber"},
    "iqn": {"double", "noisy", "quantiles", "target_quantiles", "cosines", "munchausen_policy"},
    "btr": {"munchausen_policy"},
    "rainbow": {"replay.alpha", "replay.beta", "replay.beta_final"},
    "r2d2": {"eta", "rescale"},
}


def test_every_field_is_covered():
    """A new field of an algorithm's settings needs values in `options.NUMBERS`, or a reason in `options.NO_LOSS`."""
    missing = {name: options_of(name)[1] for name in ALGORITHMS}
    assert not any(missing.values()), missing
    known = {option.field for option in OPTIONS}
    assert set(NUMBERS) <= known and set(WITH) <= known, "values of no field"
    assert len(CASES) >= 350


# A call of torch.manual_seed takes 3 ms, because it also seeds the generators of GPUs.
seed = torch.default_generator.manual_seed


class Played:
    """An algorithm under test, and the losses and step lengths that the oracle computed for its updates."""

    def __init__(self, algorithm: str, config, waits: bool):
        seed(0)
        self.algorithm, self.config, self.waits = algorithm, config, waits
        cls, c = ALGORITHMS[algorithm][0], config
        self.T = 3 if algorithm == "impala" else T
        self.algo = cls(c, SPEC, T=self.T, B=B)
        self.flat = FlatParameters(self.algo.agent.model)
        with torch.no_grad():  # Add noise: small initial weights make all outputs nearly equal.
            self.flat.data += 0.1 * torch.randn(len(self.flat.data))
        c.check()
        c.check_sampling(self.T, B)
        self.optimizer = self.algo.build_optimizer(len(self.flat.data))
        self.steps = oracle.Steps(*self.rule())
        self.algo.now.progress = PROGRESS
        self.outcome: list[float] = []
        self.updates = 0
        self.share = 1.0  # The learning-rate schedule `kl` multiplies the rate by `share`.
        self.state = torch.zeros(B, self.algo.agent.state_size) if getattr(c, "lstm", 0) else None

    def rule(self):
        c = self.config
        by_batch = isinstance(c, C51Config) and "adam" in c.optimizer
        return c.optimizer, c.rmsprop_alpha, c.optimizer_eps / (c.batch_size if by_batch else 1)

    @property
    def parameters(self):
        return read(self.algo.agent.model)

    def check_update(self, batch, loss_of, rate):
        """Compare the update on `batch` with the oracle, whose loss at fixed targets is loss_of(parameters)."""
        before = self.parameters
        loss = self.algo.loss(batch)
        want = loss_of(before)
        assert loss.total.item() == pytest.approx(want, rel=2e-5, abs=2e-6)
        self.flat.backward(loss.total)
        self.check_gradient(before, loss_of)
        g = self.flat.grad.double().numpy().copy()
        assert self.algo.now.learning_rate == pytest.approx(rate)
        change = self.steps.step(oracle.clipped_by_norm(g, self.config.clip_grad_norm), rate)
        data = self.flat.data.double().numpy().copy()
        clip_by_norm_(self.flat.grad, self.algo.config.max_grad_norm)
        self.optimizer.step(self.flat.data, self.flat.grad, self.algo.now.learning_rate)
        moved = self.flat.data.double().numpy() - data
        rounding = 1e-7 * np.linalg.norm(data)
        difference = (moved - change)[self.steps.is_exact]
        assert np.linalg.norm(difference) <= 1e-3 * np.linalg.norm(change) + rounding
        self.algo.after_update(batch, loss)
        self.outcome += [want, float(np.linalg.norm(change))]
        self.updates += 1
        return loss

    def follow_kl(self, a, state):
        c = self.config
        self.algo.after_phase()
        if c.learning_rate_schedule != "kl":
            return
        logits, _, _ = forward(self.parameters, a.frames[:-1], a.age[:-1] == 0, state)
        log_ratio = (log_pi_of(logits, a) - a.log_prob)[a.valid]
        kl = (np.exp(log_ratio) - 1 - log_ratio).mean()
        assert self.algo.measured_kl() == pytest.approx(kl, rel=1e-3, abs=1e-7)
        if kl > 2 * c.schedule_kl:
            self.share = max(self.share / 2, 1 / 128)
        elif kl < c.schedule_kl / 2:
            self.share = min(self.share * 2, 16.0)

    def check_gradient(self, p, loss_of):
        rng = np.random.default_rng(self.updates)
        grad = {name: x.grad.double().numpy() for name, x in self.flat.named}
        size = {name: np.linalg.norm(g) for name, g in grad.items()}
        size = {name: max(x, 1e-3 * max(size.values()), 1e-9) for name, x in size.items()}
        along = {n: rng.standard_normal(g.shape) / size[n] / math.sqrt(g.size) for n, g in grad.items()}
        got = sum((grad[n] * along[n]).sum() for n in grad)
        h = 1e-6 * min(size.values())
        moved = [{n: x + sign * h * along[n] if n in along else x for n, x in p.items()} for sign in (1, -1)]
        want = (loss_of(moved[0]) - loss_of(moved[1])) / (2 * h)
        scale = sum(np.linalg.norm(grad[n]) * np.linalg.norm(along[n]) for n in grad)
        assert abs(got - want) <= 2e-3 * scale + 1e-6, (got, want)


def read(model):
    return {name: x.detach().numpy().astype(np.float64) for name, x in model.named_parameters()}


def arrays(r):
    names = ("frames", "final_frames", "age", "reward", "terminated", "truncated", "ended", "valid", "action")
    found = {n: getattr(r, n).numpy() for n in names}
    found |= {n: x.double().numpy() for n, x in r.recorded.items()}
    return SimpleNamespace(**{n: x.astype(np.float64) if x.dtype.kind == "f" else x for n, x in found.items()})


# -- policy gradients ------------------------------------------------------------------------------


def forward(p, frames, first, state):
    """frames [T, n, F] -> logits [T, n, A], value [T, n], states [T, n, Z] (None without an LSTM).

    A Q-network returns action values instead of logits, and their maximum as the value.
    """
    if "heads.policy.weight" not in p:
        if state is not None:
            q, states = oracle.recurrent_q(p, frames, first, state)
        else:
            q, states = oracle.q_network(p, frames.reshape(-1, frames.shape[-1]), ACTIONS), None
            q = q.reshape(*frames.shape[:2], -1)
        return q, q.max(-1), states
    if state is not None:
        return oracle.recurrent(p, frames, first, state)
    logits, value = oracle.actor_critic(p, frames.reshape(-1, frames.shape[-1]))
    return logits.reshape(*frames.shape[:2], -1), value.reshape(frames.shape[:2]), None


def values_at_cuts(p, a, states):
    """Return V [T, n] of the last observation at each time limit, computed with the recurrent state after the step."""
    cut = np.full(a.valid.shape, np.nan)
    for t, b in np.argwhere(a.truncated):
        state = None if states is None else states[t, b][None]
        cut[t, b] = forward(p, a.final_frames[t, b][None, None], np.zeros((1, 1), bool), state)[1].item()
    return cut


def phases(played):
    stream = Stream(played.T, ROLLOUTS[played.algorithm], played.waits)
    state = played.state
    for k in range(stream.rollouts):
        r = stream.rollout(k)
        state = act(played.algo.agent, r, state)
        seed(k)
        ingest(played.algo, r)
        yield k, r


def advantages(played, r):
    """Return (the rollout's arrays, advantages, value targets, recurrent state before the rollout)."""
    c, p, a = played.config, played.parameters, arrays(r)
    state = None if r.state is None else r.state.double().numpy()
    _, value, states = forward(p, a.frames[:-1], a.age[:-1] == 0, state)
    after = None if states is None else states[-1]
    bootstrap = forward(p, a.frames[-1:], a.age[-1:] == 0, after)[1][0]
    cut = values_at_cuts(p, a, states)
    advantage = oracle.gae(a, value, bootstrap, cut, c.gamma, c.gae_lambda, c.reward_clip)
    return a, advantage, advantage + value, state


def play_a2c(played):
    c, algo = played.config, played.algo
    rate = oracle.a2c_rate(c, T * B, PROGRESS)
    for _, r in phases(played):
        a, advantage, target, state = advantages(played, r)
        chosen = a.valid

        def loss_of(p, a=a, advantage=advantage, target=target, state=state, chosen=chosen):
            logits, value, _ = forward(p, a.frames[:-1], a.age[:-1] == 0, state)
            return oracle.policy_gradient_loss(
                c, logits[chosen], value[chosen], a.action[chosen], advantage[chosen], target[chosen]
            )

        (batch,) = algo.batches()
        played.check_update(batch, loss_of, rate * played.share)
        played.follow_kl(a, state)


def minibatches(played, a, k):
    """Yield the cells (t, b) of each minibatch, in the order of torch.randperm."""
    c = played.config
    seed(k)
    if c.lstm:
        units = [[(t, b) for t in range(T)] for b in range(B)]
    else:
        units = [[(int(t), int(b))] for t, b in np.argwhere(a.valid)]
    parts = max(1, min(math.ceil(len(units) * len(units[0]) / c.minibatch), len(units)))
    orders = [torch.randperm(len(units)).numpy() for _ in range(c.epochs)]
    for order in orders:
        for part in np.array_split(order, parts):
            yield [units[i] for i in part]


def play_ppo(played):
    c, algo = played.config, played.algo
    rate = c.learning_rate * oracle.decayed(c.learning_rate_schedule, PROGRESS)
    clip = c.clip * oracle.decayed(c.clip_schedule, PROGRESS)
    for k, r in phases(played):
        a, advantage, target, state = advantages(played, r)
        if c.normalize_advantage == "rollout":
            known = advantage[a.valid]
            advantage = (advantage - known.mean()) / (known.std(ddof=1) + 1e-8)
        want = list(minibatches(played, a, k))
        seed(k)
        made, stopped = 0, False
        for batch, drawn in zip(algo.batches(), want, strict=False):
            assert not stopped
            made += 1
            cells = [cell for unit in drawn for cell in unit if a.valid[cell]]
            t, b = np.array(cells, dtype=int).reshape(-1, 2).T
            A = advantage[t, b]
            if c.normalize_advantage == "minibatch" and len(A) > 1:
                A = (A - A.mean()) / (A.std(ddof=1) + 1e-8)

            def both(p, a=a, target=target, state=state, t=t, b=b, A=A):
                logits, value, _ = forward(p, a.frames[:-1], a.age[:-1] == 0, state)
                return oracle.ppo_loss(
                    c, clip, logits[t, b], value[t, b], a.action[t, b], A, target[t, b], a.log_prob[t, b], a.value[t, b]
                )

            kl = both(played.parameters)[1]
            played.check_update(batch, lambda p, both=both: both(p)[0], rate * played.share)
            stopped = bool(c.target_kl) and kl > 1.5 * c.target_kl
        assert made == len(want) or stopped
        played.follow_kl(a, state)
        played.outcome.append(made)


def play_pqn(played):
    """Gallici et al. 2024, algorithm 1. With V = max_a q the lambda-return is V plus the advantage of GAE."""
    c, algo = played.config, played.algo
    rate = c.learning_rate * oracle.decayed(c.learning_rate_schedule, PROGRESS)
    for k, r in phases(played):
        a, _, target, state = advantages(played, r)
        want = list(minibatches(played, a, k))
        seed(k)
        made = 0
        for batch, drawn in zip(algo.batches(), want, strict=True):
            cells = [cell for unit in drawn for cell in unit if a.valid[cell]]
            t, b = np.array(cells, dtype=int).reshape(-1, 2).T

            def loss_of(p, a=a, target=target, state=state, t=t, b=b):
                q, _, _ = forward(p, a.frames[:-1], a.age[:-1] == 0, state)
                return 0.5 * ((target[t, b] - q[t, b, a.action[t, b]]) ** 2).sum() / max(len(t), 1)

            played.check_update(batch, loss_of, rate)
            made += 1
        played.outcome.append(made)


def play_impala(played):
    c, algo = played.config, played.algo
    rate = oracle.a2c_rate(c, c.window * B // c.batches, PROGRESS)
    n, pieces, states = B // c.batches, c.window // played.T, []
    rollouts = []
    for k, r in phases(played):
        rollouts.append(arrays(r))
        states.append(None if r.state is None else r.state.double().numpy())
        batches = list(algo.batches())
        if k + 1 < pieces:
            assert not batches
            continue
        turn = k % c.batches
        columns = slice(turn * n, (turn + 1) * n)
        recent = rollouts[-pieces:]
        names = ("reward", "terminated", "truncated", "ended", "valid", "action", "final_frames", "log_prob")
        a = SimpleNamespace(**{m: np.concatenate([getattr(x, m) for x in recent])[:, columns] for m in names})
        a.frames = np.concatenate([*(x.frames[:-1] for x in recent), recent[-1].frames[-1:]])[:, columns]
        a.age = np.concatenate([*(x.age[:-1] for x in recent), recent[-1].age[-1:]])[:, columns]
        state = None if states[-pieces] is None else states[-pieces][columns]
        a.valid = counted(a)
        first = a.age == 0
        logits, value, memory = forward(played.parameters, a.frames, first, state)
        ratio = np.exp(log_pi_of(logits[:-1], a) - a.log_prob)
        cut = values_at_cuts(played.parameters, a, memory)
        target, advantage = oracle.vtrace(a, a.valid, ratio, value[:-1], value[-1], cut, c)

        def loss_of(p, a=a, first=first, state=state, target=target, advantage=advantage):
            logits, value, _ = forward(p, a.frames, first, state)
            v = a.valid
            return oracle.policy_gradient_loss(c, logits[:-1][v], value[:-1][v], a.action[v], advantage[v], target[v])

        (batch,) = batches
        played.check_update(batch, loss_of, rate * played.share)
        played.follow_kl(a, state)


def log_pi_of(logits, a):
    flat = oracle.log_pi(logits.reshape(-1, ACTIONS), a.action.reshape(-1))
    return flat.reshape(a.action.shape)


def counted(a):
    valid = a.valid.copy()
    for b in range(valid.shape[1]):
        for t in range(len(valid)):
            for later in range(t, len(valid)):
                valid[t, b] &= a.valid[later, b]
                if a.ended[later, b]:
                    break
    return valid


# -- Q-learning ------------------------------------------------------------------------------------


def noise_of(model):
    layers = {n: m for n, m in model.named_modules() if hasattr(m, "noise_in")}
    return {n: (m.noise_in.double().numpy().copy(), m.noise_out.double().numpy().copy()) for n, m in layers.items()}


class Priorities:
    """Prioritized replay of Schaul et al. 2016, section 3.3 and 3.4, with the priority p^alpha of each cell (t, b)."""

    def __init__(self, config):
        self.config, self.p, self.highest = config, {}, 1.0
        self.beta = config.beta + (config.beta_final - config.beta) * PROGRESS

    def append(self, cells):
        self.p |= {cell: self.highest for cell in cells if cell not in self.p}

    def check_draw(self, drawn, uniform):
        """Check that sample i is the first cell whose cumulative priority exceeds the random number in interval i of
        the sum.

        Return the importance weights [N].
        """
        cells = sorted(self.p)
        sums = dict(zip(cells, np.cumsum([self.p[cell] for cell in cells]), strict=True))
        total = sums[cells[-1]]
        for i, (cell, u) in enumerate(zip(drawn, uniform, strict=True)):
            mass, rounding = (i + u) * total / len(drawn), 1e-6 * total
            assert sums[cell] - self.p[cell] - rounding <= mass <= sums[cell] + rounding
        weight = np.array([(len(cells) * self.p[cell] / total) ** -self.beta for cell in drawn])
        return weight / weight.max()

    def update(self, drawn, error):
        new = {}
        # A cell that was drawn twice gets the priority of its larger error.
        for cell, e in zip(drawn, error, strict=True):
            new[cell] = max((abs(e) + 1e-6) ** self.config.alpha, new.get(cell, 0.0))
        self.p |= new
        self.highest = max(self.highest, *new.values())


def play_q_learning(played):
    c, algo = played.config, played.algo
    atoms = getattr(c, "atoms", None) or getattr(c, "quantiles", 1)
    algo.begin()
    with torch.no_grad():
        for x in algo.target.parameters():
            x.add_(0.1 * torch.randn(x.shape))
    is_recurrent, state, states = isinstance(c, R2D2Config), None, []
    stream = Stream(T, SEQUENCE_ROLLOUTS if is_recurrent else Q_ROLLOUTS, played.waits)
    s = arrays(SimpleNamespace(recorded={}, **vars(stream)))
    target_net = read(algo.target)
    rate = c.learning_rate * oracle.decayed(c.learning_rate_schedule, PROGRESS)
    priorities, due, env_steps = Priorities(c.replay), 0.0, 0
    for k in range(stream.rollouts):
        r = stream.rollout(k)
        if is_recurrent:
            state = sequences.act(algo.agent, r, state)
            states.append(r.state.double().numpy())
        ingest(algo, r)
        before, env_steps = env_steps, env_steps + int(r.valid.sum())
        rows = range(0, max(0, (k + 1) * T - c.n_step))
        cells = [(t, b) for t in rows for b in range(B) if oracle.is_known(s, t, b, c.n_step)]
        cells = sequences.starts(c, (k + 1) * T) if is_recurrent else cells
        priorities.append(cells)
        learning = env_steps >= c.replay.start and len(cells) > 0
        due += int(r.valid.sum()) * c.intensity * learning
        ended = env_steps // c.target_interval - before // c.target_interval if c.target_unit == "env-steps" else 0
        copied_after = {math.ceil(i * int(due // c.transitions_per_update) / ended) for i in range(ended)}
        made = 0
        while due >= c.transitions_per_update:
            phase = algo.batches()
            some = False
            while True:
                generator = torch.Generator()
                generator.set_state(algo.replay.generator.get_state())
                batch = next(phase, None)
                if batch is None:
                    break
                if made in copied_after or (c.target_unit == "updates" and played.updates % c.target_interval == 0):
                    target_net = played.parameters
                check_q_update(played, batch, s, cells, priorities, generator, target_net, atoms, rate, states)
                due, made, some = due - c.transitions_per_update, made + 1, True
            assert some, "an update is due, and none is made"
        assert next(algo.batches(), None) is None, "an update is made that is not due"
        if made in copied_after:
            target_net = played.parameters
        played.outcome.append(made)


def check_q_update(played, batch, s, cells, priorities, generator, target_net, atoms, rate, states):
    c, algo = played.config, played.algo
    assert {n: x.tobytes() for n, x in read(algo.target).items()} == {n: x.tobytes() for n, x in target_net.items()}
    if algo.agent.model.noisy:
        torch.randint(2**62, (), generator=generator)
    drawn = [divmod(int(i), B) for i in batch.cell]
    weight = np.ones(len(drawn))
    if c.replay.prioritized:
        uniform = torch.rand(c.batch_size, dtype=torch.float64, generator=generator).numpy()
        weight = priorities.check_draw(drawn, uniform)
    elif c.replay.replacement:
        uniform = torch.rand(c.batch_size, dtype=torch.float64, generator=generator).numpy()
        assert drawn == [cells[int(u * len(cells))] for u in uniform]
    else:
        assert len(set(drawn)) == len(drawn) == min(c.batch_size, len(cells)) and set(drawn) <= set(cells)
    np.testing.assert_allclose(batch.weight.numpy(), weight, rtol=1e-4)
    noise, noise_t = noise_of(algo.agent.model), noise_of(algo.target)
    assert bool(noise) == c.noisy and (not noise or any((noise[n][0] != noise_t[n][0]).any() for n in noise))
    if states:
        nets = (played.parameters, noise), (target_net, noise_t)
        got = sequences.check_update(played, batch, s, states, drawn, weight, *nets, rate)
        priorities.update(drawn, got.error.double().numpy())
        return
    obs = np.array([s.frames[cell] for cell in drawn])
    action = [int(s.action[cell]) for cell in drawn]
    steps = [oracle.n_step(s, t, b, c.n_step, c.gamma, c.reward_clip) for t, b in drawn]
    reward, discount, obs_t = (np.array(x) for x in zip(*steps, strict=True))
    implicit = getattr(algo.agent.model, "tau", None)

    def outputs(p, obs, model, stream, n):
        noise_of_model = noise if model is algo.agent.model else noise_t
        if not implicit:
            return oracle.q_network(p, obs, ACTIONS, atoms, noise_of_model)
        tau = model.tau(len(obs), n, stream).double().numpy()
        return oracle.implicit(p, obs, ACTIONS, tau, noise_of_model, algo.FIRST_COSINE)

    def values(p, obs, model, stream):
        return oracle.values_of(c, outputs(p, obs, model, stream, getattr(c, "value_quantiles", 0)))

    p0, model, target = played.parameters, algo.agent.model, algo.target
    out_t = outputs(target_net, obs_t, target, 2, getattr(c, "target_quantiles", 0))
    chooser = values(p0, obs_t, model, 0) if c.double else values(target_net, obs_t, target, 0)
    if isinstance(c, BTRConfig) and not c.double:
        chooser = out_t.mean(-1)
    online = c.munchausen_policy == "online"
    before = values(p0, obs, model, 3) if online else values(target_net, obs, target, 0)
    reward, policy = oracle.bootstrap(c, reward, discount, action, chooser, before)
    targets_of, loss = next((of[1:] for of in DISTRIBUTIONS if isinstance(c, of[0])), (oracle.q_targets, oracle.q_loss))
    targets = targets_of(c, reward, discount, out_t, policy)
    if implicit:
        loss = functools.partial(loss, tau=implicit(len(obs), c.quantiles, 1).double().numpy())

    def learned(p):
        return outputs(p, obs, model, 1, getattr(c, "quantiles", 0))

    def loss_of(p):
        if c.dueling and not implicit:  # Gradients into the shared layers are scaled by 2^-1/2 (Wang et al. 2016).
            p = p | {n: p0[n] + (p[n] - p0[n]) * 2**-0.5 for n in p if n.startswith("body.")}
        return loss(c, learned(p), action, weight, targets)[0]

    error = loss(c, learned(p0), action, weight, targets)[1]
    got = played.check_update(batch, loss_of, rate)
    np.testing.assert_allclose(got.error.numpy(), error, rtol=1e-3, atol=2e-5 + 2e-6 * np.abs(error).max())
    priorities.update(drawn, got.error.double().numpy())


DISTRIBUTIONS = (
    (C51Config, oracle.categorical_targets, oracle.categorical_loss),
    (QRDQNConfig, oracle.quantile_targets, oracle.quantile_loss),
)
PLAY = {"a2c": play_a2c, "ppo": play_ppo, "pqn": play_pqn, "impala": play_impala}


@functools.cache  # cached, because many test cases have equal arguments
def play(algorithm, config, waits=True):
    """Compare all updates of an algorithm on a stream of experience with the oracle.

    Returns the oracle's losses and step lengths, and the numbers of updates.
    """
    of_channels = getattr(config, "layer_norm", "none") == "before-channels"
    oracle.OF_NORMS["epsilon"] = 1e-6 if of_channels else 1e-5
    played = Played(algorithm, config, waits)
    PLAY.get(algorithm, play_q_learning)(played)
    assert played.updates >= 3
    return tuple(round(x, 9) for x in played.outcome)


def is_quick(option):
    return option.field in OWN_EQUATIONS.get(option.algorithm, {option.field})


@pytest.mark.parametrize(
    "option",
    [pytest.param(o, marks=() if is_quick(o) else pytest.mark.slow, id=f"{o.algorithm}-{o.field}") for o in OPTIONS],
)
def test_every_value_equals_the_equations(option):
    outcomes = {play(option.algorithm, settings(option, value)) for value in option.values}
    assert len(outcomes) == len(option.values), "a value that changes nothing is not tested"


@pytest.mark.parametrize(
    ("algorithm", "seed"),
    [case if case in (("ppo", 0), ("dqn", 0)) else slow(*case) for case in itertools.product(ALGORITHMS, range(8))],
)
def test_values_together_equal_the_equations(algorithm, seed):
    """Test an algorithm with random values of all its options; with an odd seed, the experience has no invalid
    steps."""
    draw = random.Random(f"{algorithm} {seed}")
    values = {o.field: draw.choice(o.values) for o in options_of(algorithm)[0]}
    if "centered" in str(values["optimizer"]):  # With an alpha of 0, RMSProp's variance would be 0.
        values["rmsprop_alpha"] = 0.9
    play(algorithm, changed(algorithm, values), waits=seed % 2 == 0)


@pytest.mark.parametrize(("algorithm", "field"), NO_LOSS_OF)
def test_what_changes_no_loss_changes_none(algorithm, field):
    values = NUMBERS.get(field, ("target", "online"))
    assert len({play(algorithm, changed(algorithm, {field: value})) for value in values}) == 1
