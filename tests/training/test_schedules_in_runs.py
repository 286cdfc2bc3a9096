"""In runs of all algorithms, learning rate, clip range, epsilon and beta have the values of their schedules."""

import math
from collections import defaultdict
from dataclasses import replace

import pytest
import torch

from accel_rl.algos import ppo
from accel_rl.algos.replay_algorithm import ReplayAlgorithm
from accel_rl.samplers.sampler import Sampler
from accel_rl.settings.registry import ALGORITHMS
from tests.golden.runs import LINEAR, POLE, SEQUENCES, config
from tests.golden.runs import SMALL as Q
from tests.marks import slow_unless

B, T = 8, 4
ROLLOUT, END, RUN = T * B, 256, 384  # Env steps of a rollout, of the linear schedules, and of the run.
START, PERIOD = 80, Q["target_interval"]


def line(begin, end, share):
    """Return a value that changes linearly from `begin` to `end` while `share` grows from 0 to 1."""
    return begin + (end - begin) * min(max(share, 0), 1)


def decay(s):
    """Return a factor that falls linearly from 1 to 0 at END env steps (Mnih et al. 2016; Schulman et al. 2017)."""
    return line(1, 0, s / END)


def warm(s):
    """The learning rate with the warmup of Goyal et al. 2017, section 2.2, in the first quarter of the schedule."""
    return line(7e-4, 14e-4, s / (0.25 * END)) * decay(s)


def pqn_epsilon(s):
    """The epsilon of Gallici et al. 2024, which falls from 1 to 0.01 over half of the schedule, one rollout late."""
    return line(1, 0.01, (s - ROLLOUT) / (0.5 * END))


def q_epsilon(final, s):
    """The epsilon of Mnih et al. 2015, which is 1 until START env steps, and then falls to `final` over
    epsilon_steps."""
    return line(1, final, (s - START) / Q["epsilon_steps"])


def beta(s):
    """The exponent beta of Schaul et al. 2016, section 3.4, which grows from 0.4 to 1 at END env steps."""
    return line(0.4, 1, s / END)


def before_period(s):
    return s // PERIOD * PERIOD


def updates(s, first=START // ROLLOUT * ROLLOUT):
    """The number of updates of Stooke & Abbeel 2018, section 5: intensity x (env steps - first) / batch size.

    `first` is the beginning of the training cycle that reaches START env steps.
    """
    return max(0, int((s - first) * Q["intensity"] / Q["batch_size"]))


def spread(epsilon, exponent=7):
    """The epsilons of Horgan et al. 2018: epsilon^(1 + exponent i / (B - 1)) for environment i of B."""
    return lambda s: [epsilon(s) ** (1 + exponent * i / (B - 1)) for i in range(B)]


def dqn_epsilon(s):
    return q_epsilon(0.1, s)


def c51_epsilon(s):
    return q_epsilon(0.01, s)


def btr_epsilon(s):
    """The exponentially decaying epsilon in the code of Clark et al. 2024, here set to 0 after 300 env steps."""
    if s < START:
        return 1.0
    return 0.0 if s >= 300 else 0.01 + 0.99 * math.exp(-0.1) * math.exp(-(s - START) / Q["epsilon_steps"])


CONSTANT = {"learning_rate_schedule": "constant"}
RATE = {"learning_rate": 1e-3}
Q_RATE = {"rate": lambda s: 1e-3 * decay(s)}
FEW = {"minibatch": 16, "epochs": 2}
CASES = {  # Maps a case to (algorithm, settings, {kind of value: expected value after s env steps}).
    "a2c": ("a2c", {**LINEAR, "warmup": 0.25, "reference_batch": 8}, {"rate": warm}),
    "a2c, constant": ("a2c", {"reference_batch": 32}, {"rate": lambda s: 7e-4}),
    "impala": ("impala", {**LINEAR, "warmup": 0.25, "reference_batch": 4, "window": T, "batches": 2}, {"rate": warm}),
    "ppo": (
        "ppo", {**FEW, "clip_schedule": "linear"}, {"rate": lambda s: 1e-3 * decay(s), "clip": lambda s: 0.2 * decay(s)}
    ),
    "ppo, constant": ("ppo", {**FEW, **CONSTANT}, {"rate": lambda s: 1e-3, "clip": lambda s: 0.2}),
    "pqn": ("pqn", {**FEW, "exploration": 0.5}, {"rate": lambda s: 1e-3 * decay(s), "epsilon": pqn_epsilon}),
    "pqn, LSTM, spread, constant": (
        "pqn", {**FEW, **CONSTANT, "exploration": 0.5, "lstm": 8, "epsilon_spread": 7.0},
        {"rate": lambda s: 1e-3, "epsilon": spread(pqn_epsilon)},
    ),
    "dqn": ("dqn", {**RATE, **LINEAR}, {**Q_RATE, "epsilon": dqn_epsilon}),
    "dqn, spread, constant": (
        "dqn", {**RATE, "epsilon_spread": 7.0}, {"rate": lambda s: 1e-3, "epsilon": spread(dqn_epsilon)}
    ),
    "dqn, epsilon by updates": (
        "dqn", {**RATE, "epsilon_unit": "updates", "epsilon_steps": 20},
        {"rate": lambda s: 1e-3, "epsilon": lambda s: line(1, 0.1, updates(s - ROLLOUT) / 20)},
    ),
    "c51": ("c51", {**RATE, **LINEAR}, {**Q_RATE, "epsilon": c51_epsilon}),
    "qrdqn": ("qrdqn", {**RATE, **LINEAR}, {**Q_RATE, "epsilon": c51_epsilon}),
    "iqn": ("iqn", {**RATE, **LINEAR}, {**Q_RATE, "epsilon": c51_epsilon}),
    "btr": (
        "btr", {**RATE, **LINEAR, "value_quantiles": 4, "epsilon_until": 300},
        {**Q_RATE, "epsilon": btr_epsilon, "beta": lambda s: 0.2},
    ),
    "r2d2": (
        "r2d2", {**RATE, **LINEAR, **SEQUENCES},
        {**Q_RATE, "epsilon": spread(lambda s: 1.0 if s < START else 0.4)},
    ),
    "rainbow": ("rainbow", {**RATE, **LINEAR}, {**Q_RATE, "epsilon": c51_epsilon, "beta": beta}),
    "rainbow, noisy": (
        "rainbow", {**RATE, **CONSTANT, "noisy": True},
        {"rate": lambda s: 1e-3, "epsilon": lambda s: float(s < START), "beta": beta},
    ),
    "rainbow, concurrent": (  # Beta stays constant in a concurrent period.
        "rainbow", {**RATE, **LINEAR},
        {
            "rate": lambda s: 1e-3 * decay(before_period(s)), "epsilon": c51_epsilon,
            "beta": lambda s: beta(before_period(s) - PERIOD),
        },
    ),
}  # fmt: skip


class Used:
    """Records the scheduled values that a run uses.

    `values[name][s]` are the values in the training cycle that began after s env steps, or for epsilon, in the rollout
    that began after s env steps.
    """

    def __init__(self, trainer, monkeypatch):
        self.trainer = trainer
        self.values = defaultdict(lambda: defaultdict(list))
        self.sampled = 0
        algo, optimizer = trainer.learner.algo, trainer.learner.gradient_sync.guarded.optimizer
        step, loss, surrogate, collect = optimizer.step, algo.loss, ppo.clipped_surrogate, Sampler.collect

        def noted_step(data, grad, learning_rate, *more):
            self.note("rate", float(learning_rate))
            step(data, grad, learning_rate, *more)

        def noted_surrogate(ratio, advantage, clip):
            self.note("clip", float(clip))
            return surrogate(ratio, advantage, clip)

        def noted_collect(sampler, agent):
            if hasattr(agent, "epsilon_tensor"):
                self.note("epsilon", agent.epsilon_tensor.expand(B).tolist(), self.sampled)
            rollout = collect(sampler, agent)
            self.sampled += rollout.env_steps
            return rollout

        def noted_loss(batch):
            if isinstance(algo, ReplayAlgorithm) and algo.config.replay.prioritized:
                self.note_beta(algo.replay, batch)
            return loss(batch)

        optimizer.step, algo.loss = noted_step, noted_loss
        monkeypatch.setattr(ppo, "clipped_surrogate", noted_surrogate)
        monkeypatch.setattr(Sampler, "collect", noted_collect)

    def note(self, name, value, s=None):
        values = self.values[name][self.trainer.counters.env_steps if s is None else s]
        if value not in values:
            values.append(value)

    def note_beta(self, replay, batch):
        """Compute and record the beta that gave the batch its importance weights (p / min p)^-beta."""
        p = replay.selection.tree[replay.ring.position_of(batch.cell)].double().log()
        # Beta cannot be computed from a batch with equal priorities, such as the first.
        if float(p.max() - p.min()) > 0.1:
            i = int(p.argmax())
            self.note("beta", round(float(-batch.weight[i].double().log() / (p[i] - p.min())), 3))


def run(open_trainer, case, monkeypatch):
    algorithm, changes, _ = CASES[case]
    settings = replace(config(algorithm, POLE, horizon=T, env_steps=RUN, **changes), schedule_steps=END)
    if "concurrent" in case:
        settings = replace(settings, schedule="concurrent")
    trainer = open_trainer(settings)
    used = Used(trainer, monkeypatch)
    while trainer.counters.env_steps < RUN:
        trainer._cycle()
    return used


MORE = ("a2c, constant", "ppo, constant", "pqn", "dqn, spread, constant", "rainbow")


@pytest.mark.parametrize("case", slow_unless(lambda case: case not in MORE, CASES))
def test_a_run_uses_the_values_of_its_schedules(open_trainer, case, monkeypatch):
    used = run(open_trainer, case, monkeypatch)
    for name, expected in CASES[case][2].items():
        found = used.values[name]
        assert max(found) == RUN - (PERIOD if case.endswith("concurrent") and name != "epsilon" else ROLLOUT)
        for s, values in found.items():
            assert len(values) == 1, f"{name} changes within a cycle"
            want = expected(s)
            if name == "epsilon" and isinstance(want, float):
                want = [want] * B
            # The computed beta has the rounding errors of float32 weights.
            tolerance = 0.01 if name == "beta" else 1e-5
            assert values[0] == pytest.approx(want, rel=tolerance, abs=1e-7), f"{name} after {s} env steps"
    assert set(used.values) == set(CASES[case][2]), "a schedule is not asserted"


def test_every_algorithm_has_a_case():
    assert {algorithm for algorithm, _, _ in CASES.values()} == set(ALGORITHMS)


def parameters(network):
    return [x.clone() for x in network.parameters()]


@pytest.mark.parametrize("case", ["dqn", "c51", "rainbow", "rainbow, concurrent"])
def test_updates_begin_at_the_start_and_the_target_is_copied_in_intervals(open_trainer, case):
    """The target network is copied when env steps reach a multiple of the interval.

    The target network is copied before a training cycle's updates, or with --schedule concurrent (Daley & Amato 2021)
    at the end of a period. The number of updates follows from the training intensity (Stooke & Abbeel 2018, section 5).
    """
    algorithm, changes, _ = CASES[case]
    concurrent = case.endswith("concurrent")
    interval, cycle = (PERIOD, PERIOD) if concurrent else (80, ROLLOUT)
    settings = config(algorithm, POLE, horizon=T, env_steps=RUN, **changes | {"target_interval": interval})
    trainer = open_trainer(replace(settings, schedule="concurrent" if concurrent else "lockstep"))
    algo = trainer.learner.algo
    # With --schedule concurrent, a period's updates use the replay as it was at the beginning of the period.
    first = math.ceil(START / PERIOD) * PERIOD if concurrent else START // ROLLOUT * ROLLOUT
    online = {0: parameters(algo.agent.model)}
    for s in range(cycle, RUN + 1, cycle):
        trainer._cycle()
        assert trainer.counters.env_steps == s
        online[s] = parameters(algo.agent.model)
        copied = s if concurrent else max(0, math.ceil(s // interval * interval / cycle) * cycle - cycle)
        assert all(torch.equal(a, b) for a, b in zip(parameters(algo.target), online[copied], strict=True)), s
        assert trainer.learner.updates == updates(s, first), s
    assert not torch.equal(online[RUN][0], online[0][0])
