"""With --schedule concurrent, results equal those of sequential sampling and training.

An exception in sampling or in training ends both.
"""

import copy
import os
import signal
import threading
import time
from dataclasses import replace

import pytest
import torch

from accel_rl.algos.algorithm import advance
from accel_rl.algos.dqn import DQN
from accel_rl.metrics.update_metrics import UpdateMetrics
from accel_rl.planning.plan import RankPlan
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.registry import NAMES_WITH_REPLAY
from accel_rl.settings.resolved import resolve
from accel_rl.settings.train import SecondaryConfig, TrainConfig, default_config
from accel_rl.text.errors import ConfigError, RunError
from accel_rl.training.build_trainer import build_trainer
from tests.marks import slow
from tests.samplers.conftest import SMALL

C, T, B = 96, 6, 8  # C env steps in a period, T time steps in a rollout, B environments.


def config(
    algorithm="dqn", schedule="concurrent", engine="in-process", env="CartPole-v1", reset="immediate", **algo
) -> TrainConfig:
    base = default_config(algorithm)
    replay = replace(base.algo.replay, size=400, start=100)
    settings = {"batch_size": 16, "intensity": 2.0, "target_interval": C, "epsilon_steps": 500, "network": SMALL}
    return replace(
        base,
        env=replace(base.env, id=env),
        algo=replace(base.algo, replay=replay, **(settings | algo)),
        sampler=replace(base.sampler, envs=B, horizon=T, engine=engine, workers=2, reset=reset),
        evaluation=replace(base.evaluation, interval=0),
        schedule=schedule,
        env_steps=10_000,
        torch_threads=1,
    )


@pytest.fixture
def trainer(tmp_path):
    def build(*args, secondary=0, **kwargs):
        c = replace(config(*args, **kwargs), secondary=SecondaryConfig(batch=secondary))
        c = resolve(c)
        built.append(build_trainer(c, RankPlan.resolve(c), RunFolder.create(tmp_path / str(len(built)), c)))
        return built[-1]

    built = []
    yield build
    for t in built:
        t.schedule.close()
        t.sampler.close()


def sequential(trainer, periods):
    """Run periods of Daley & Amato's algorithm 1 in one thread. Returns the metrics of each update."""
    torch.manual_seed(9)  # the learner's noise
    algo, learner, found = trainer.learner.algo, trainer.learner, []
    player = algo.behaviour()
    for _ in range(periods):
        algo.owe(C)
        rollouts = []
        for k in range(C // (T * B)):
            player.epsilon = algo.schedules(0.0, algo.now.env_steps + k * T * B)["epsilon"]
            rollouts.append(copy.deepcopy(trainer.sampler.collect(player)))
        for batch in algo.batches():
            found.append(UpdateMetrics.of(learner.update(batch)))
        for rollout in rollouts:
            advance(algo, rollout)
            algo.store(rollout)
        algo.target.load_state_dict(algo.agent.model.state_dict())
        player.model.load_state_dict(algo.target.state_dict())
    return found


def same_replays(a, b) -> bool:
    a, b = a.learner.algo.replay.ring.steps, b.learner.algo.replay.ring.steps
    return a.cursor == b.cursor and all(
        torch.equal(getattr(a, n), getattr(b, n)) for n in ("frames", "age", "action", "reward", "flags")
    )


POLE, PICTURES = "CartPole-v1", "tests.catch:make"
SPREAD, NOISY = {"epsilon_spread": 7.0}, {"noisy": True}
SEQUENCES = {"batch_size": 2, "length": 8, "burn_in": 4, "period": 6, "lstm": 8, "target_unit": "env-steps"}
SEQUENTIAL = [("rainbow", NOISY, PICTURES), ("dqn", SPREAD, POLE)]
ALSO_SEQUENTIAL = [
    ("dqn", {}, PICTURES),
    ("c51", {}, POLE),
    ("qrdqn", {"quantiles": 7, "double": True}, POLE),
    ("iqn", {"quantiles": 7, "value_quantiles": 4, "munchausen": 0.9}, POLE),
    ("r2d2", SEQUENCES, PICTURES),
    ("dqn", {}, POLE),
    ("c51", {}, PICTURES),
    ("rainbow", NOISY, POLE),
    ("dqn", SPREAD, PICTURES),
]


@pytest.mark.parametrize(("algorithm", "more", "env"), [*SEQUENTIAL, *(slow(*case) for case in ALSO_SEQUENTIAL)])
def test_it_equals_a_sequential_program(trainer, algorithm, more, env):
    expected, found = trainer(algorithm, "lockstep", env=env, **more), trainer(algorithm, env=env, **more)
    wanted, got, steps = sequential(expected, 6), [], 0
    torch.manual_seed(9)
    for _ in range(6):
        n, metrics = found.schedule.cycle(10_000)
        got, steps = got + metrics, steps + n
    assert steps == 6 * C and len(got) > 40
    assert torch.equal(expected.learner.flat.data, found.learner.flat.data) and same_replays(expected, found)
    assert all(a.names == b.names and torch.equal(a.sums, b.sums) for a, b in zip(wanted, got, strict=True))


class FixedEpsilon(DQN):
    """A user's algorithm that schedules only the learning rate, and not epsilon."""

    def build_agent(self, spec):
        agent = super().build_agent(spec)
        agent.epsilon = 0.25
        return agent

    def schedules(self, progress, env_steps):
        return {"learning_rate": 1e-3 * (1 - progress)}


def test_an_algorithm_without_a_schedule_of_epsilon_acts_with_that_of_its_agent(trainer):
    t = trainer(f"{__name__}:FixedEpsilon")
    assert sum(len(t.schedule.cycle(10_000)[1]) for _ in range(4)) > 0
    assert t.schedule.behaviour.epsilon == 0.25


@pytest.mark.slow
def test_workers_and_a_second_learner_change_nothing(trainer):
    serial, workers = trainer(secondary=32), trainer(secondary=32, engine="workers")
    for _ in range(5):
        a, b = serial.schedule.cycle(10_000)[1], workers.schedule.cycle(10_000)[1]
        assert [sorted(m.names) for m in a] == [sorted(m.names) for m in b]
    assert torch.equal(serial.learner.flat.data, workers.learner.flat.data)
    assert torch.equal(serial.secondary.flat.data, workers.secondary.flat.data)
    assert not torch.equal(serial.secondary.flat.data, serial.learner.flat.data)


@pytest.mark.parametrize("schedule", ["lockstep", "concurrent"])
@pytest.mark.parametrize("reset", [slow("immediate"), "wait"])
def test_the_training_intensity_is_that_of_the_steps_that_were_taken(trainer, schedule, reset):
    """Each transition is trained on `intensity` times on average, even if environments skip steps while they wait for
    resets.

    The tolerance is one batch, and with --schedule concurrent also one period's updates.
    """
    t = trainer(schedule=schedule, env="tests.golden.runs:short_pole", reset=reset)
    steps = updates = began = 0
    for _ in range(8 if schedule == "concurrent" else 8 * C // (T * B)):
        ready = t.learner.algo.learning
        n, metrics = t.schedule.cycle(10_000)
        if began or ready or metrics:
            began = began or steps
            updates += len(metrics)
        steps += n
    if reset == "wait":  # Episodes have at most 12 steps, so that many steps are skipped.
        assert steps < 0.95 * 8 * C
    late = C if schedule == "concurrent" else 0
    wanted = (steps - began) * 2.0 / 16
    assert abs(updates - wanted) <= 1 + late * 2.0 / 16, (updates, wanted)
    # Trained transitions plus those that are due later are exactly the intensity (2) times the env steps.
    if schedule == "concurrent":
        algo = t.learner.algo
        assert updates * 16 + algo.budget.transitions == 2.0 * (steps - began)


def test_every_step_is_in_the_replay_once_after_each_meeting(trainer):
    t = trainer()
    collect, seen = t.sampler.collect, []

    def noted(agent):
        rollout = collect(agent)
        seen.append((rollout.frames[0 : rollout.T].clone(), rollout.action.clone()))
        return rollout

    t.sampler.collect = noted
    # The last period samples only the remaining env steps, rounded up to whole rollouts.
    for remaining in (C, C, C, 50):
        t.schedule.cycle(remaining)
        ring, n = t.learner.algo.replay.ring, len(seen) * T
        assert ring.cursor == n == t.learner.algo.now.env_steps // B
    frames, actions = (torch.cat(x).flatten(0, 1) for x in zip(*seen, strict=True))
    assert len(seen) == 3 * C // (T * B) + 2
    assert torch.equal(ring.frames[: len(frames)], frames) and torch.equal(ring.action[: len(actions)].long(), actions)


def test_nothing_is_lost_on_ctrl_c_nor_around_an_evaluation(tmp_path):
    c = config()
    c = resolve(replace(c, env_steps=6 * C, evaluation=replace(c.evaluation, interval=2 * C, steps=200, parallel=2)))
    folder, seen = RunFolder.create(tmp_path / "run", c), []

    def play(state, stop_at):
        t = build_trainer(c, RankPlan.resolve(c), folder, state)
        collect = t.sampler.collect

        def noted(agent):
            rollout = collect(agent)
            seen.append((rollout.frames[0:T].clone(), rollout.action.clone()))
            if len(seen) == stop_at:
                os.kill(os.getpid(), signal.SIGINT)
            return rollout

        t.sampler.collect = noted
        return t, t.run()

    t, first = play(None, stop_at=3 * C // (T * B) + 1)  # Ctrl-C after the first rollout of period 4
    assert first.exit_code == 130 and t.schedule.pending and first.env_steps == 3 * C == len(seen) * T * B - T * B
    t, second = play(t.saver.checkpoints.load_latest()[1], stop_at=-1)
    ring, (frames, actions) = t.learner.algo.replay.ring, (torch.cat(x) for x in zip(*seen, strict=True))
    assert second.exit_code == 0 and second.env_steps == 6 * C and len(seen) == 6 * C // (T * B)
    assert ring.cursor == 6 * C // B and len(list(folder.path.glob("evaluations/*"))) == 3
    for row in range(ring.cursor - ring.L, ring.cursor):  # the ring has wrapped
        cells = slice(row % ring.L * B, row % ring.L * B + B)
        assert torch.equal(ring.frames[cells], frames[row]) and torch.equal(ring.action[cells].long(), actions[row])


@pytest.mark.parametrize("at", [1, *(slow(n) for n in (0, 3))])
def test_an_interrupted_period_goes_on_where_it_was(trainer, at):
    whole, first, second = (
        trainer("rainbow", noisy=True),
        trainer("rainbow", noisy=True),
        trainer("rainbow", noisy=True),
    )
    torch.manual_seed(9)
    expected = [m for _ in range(4) for m in whole.schedule.cycle(10_000)[1]]
    torch.manual_seed(9)
    found = [m for _ in range(3) for m in first.schedule.cycle(10_000)[1]]
    asked = iter([False] * at + [True] * 1000)
    first.schedule.interrupted = lambda: next(asked)
    assert first.schedule.cycle(10_000) == (0, []) and first.schedule.pending
    second.learner.load_state_dict(first.learner.state_dict())
    second.sampler.load_state_dict(first.sampler.state_dict())
    second.schedule.load_state_dict(first.schedule.state_dict())
    steps, metrics = second.schedule.cycle(10_000)
    assert steps == C and not second.schedule.pending
    for a, b in zip(expected, found + metrics, strict=True):
        assert a.names == b.names and torch.equal(a.sums, b.sums)
    assert torch.equal(whole.learner.flat.data, second.learner.flat.data)
    assert same_replays(whole, second)


class Broken(Exception):
    pass


def test_a_fault_of_the_trainer_ends_the_sampling(trainer):
    t = trainer()
    for _ in range(3):
        t.schedule.cycle(10_000)
    t.learner.update = lambda batch: (_ for _ in ()).throw(Broken("out of memory"))
    with pytest.raises(Broken, match="out of memory"):
        t.schedule.cycle(10_000)


def test_a_fault_of_the_sampler_ends_the_training(trainer):
    t = trainer()
    for _ in range(3):
        t.schedule.cycle(10_000)
    update, begun = t.learner.update, threading.Event()

    def slowly(batch):
        begun.set()
        time.sleep(0.05)
        return update(batch)

    def fails(agent):
        begun.wait(10)
        raise RunError("the worker was lost")

    t.learner.update, t.sampler.collect = slowly, fails
    before, since = t.learner.updates, time.monotonic()
    with pytest.raises(RunError, match="worker was lost"):
        t.schedule.cycle(10_000)
    assert t.learner.updates - before <= 2 and time.monotonic() - since < 5


def test_too_many_updates_that_are_not_finite_end_the_period(trainer):
    t = trainer()
    for _ in range(3):
        t.schedule.cycle(10_000)
    t.schedule.most_skipped = 3
    t.learner.flat.data.fill_(torch.nan)
    assert t.schedule.cycle(10_000) == (0, [])
    assert t.learner.gradient_sync.skips.in_a_row == 3


def test_a_killed_worker_is_replaced_in_the_middle_of_a_period(trainer):
    t = trainer(engine="workers")
    t.schedule.cycle(10_000)
    os.kill(t.sampler.engine.pids()[0], signal.SIGKILL)
    steps = [t.schedule.cycle(10_000)[0] for _ in range(2)]
    assert steps[0] < C
    assert t.learner.algo.now.env_steps == C + sum(steps) and t.learner.algo.replay.ring.cursor == 3 * C // B


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"algorithm": "a2c"}, f"--schedule concurrent: only {NAMES_WITH_REPLAY}"),
        ({"target_interval": 100}, "--algo.target-interval 100: must divide by 8 environments x 6 steps .* use 96"),
    ],
)
def test_settings_that_do_not_go_together(change, line):
    if "algorithm" in change:
        c = replace(default_config("a2c"), env=config().env, schedule="concurrent")
    else:
        c = config(**change)
    with pytest.raises(ConfigError, match=line):
        resolve(c)
