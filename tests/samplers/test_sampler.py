"""The rollouts of a sampler with worker processes equal those of the serial sampler bit for bit."""

from itertools import islice

import numpy as np
import pytest
import torch

from accel_rl.agents.agent import RandomAgent
from accel_rl.agents.epsilon_greedy import EpsilonGreedyAgent
from accel_rl.data.rollout_arrays import Step
from accel_rl.envs.make import make_batch, make_spec
from accel_rl.machine.hardware import allowed_cores
from accel_rl.models.q_network import QNetwork
from accel_rl.samplers.grouping import env_seed
from tests.env_settings import env_of
from tests.marks import slow
from tests.samplers.conftest import SMALL, digest, digest_of, make_agent, make_noisy_agent, make_sampler

# Short time limits cause many ends of episodes and resets.
GAMES = [
    env_of(game="breakout", max_episode_steps=40, noop_max=5),
    env_of(game="pong", max_episode_steps=23, noop_max=5, repeat_action_probability=0.25),
    env_of(game="boxing", max_episode_steps=45, noop_max=5),
]


CASES = [
    pytest.param(env, groups, reset, marks=() if default else pytest.mark.slow, id=f"{env.game}-{groups}-{reset}")
    for env in GAMES
    for groups in (1, 2)
    for reset in ("immediate", "wait", "swap", "cached")
    for default in [(env.game, groups, reset) in {("breakout", 2, "wait")}]
]


@pytest.mark.parametrize(("env", "groups", "reset"), CASES)
def test_any_number_of_workers_equals_the_serial_sampler(env, groups, reset):
    agent, got = make_agent(env), {}
    for workers in (0, 2) if groups == 2 else (0, 3):
        sampler = make_sampler(env, 12, groups, workers, reset=reset, decorrelation_steps=10)
        try:
            got[workers], ended = digest(sampler, agent, 12)  # 60 steps
        finally:
            sampler.close()
        assert ended > 10
    assert len(set(got.values())) == 1, got


@pytest.mark.parametrize("reset", ["immediate", slow("wait")])
@pytest.mark.parametrize("made", [make_agent, slow(make_noisy_agent)])
def test_workers_served_as_they_come_equal_the_serial_sampler(made, reset):
    agent, got = made(GAMES[0]), {}
    for workers in (0, 3):
        sampler = make_sampler(
            GAMES[0], 12, 3, workers, dedicated_workers=workers > 0, reset=reset, decorrelation_steps=10
        )
        try:
            got[workers], ended = digest(sampler, agent, 12)
            state = sampler.state_dict()
        finally:
            sampler.close()
        assert ended > 10
    again = make_sampler(GAMES[0], 12, 3, 3, dedicated_workers=True, reset=reset)
    try:
        again.load_state_dict(state)
        restored = again.state_dict()
    finally:
        again.close()
    assert got[0] == got[3]
    assert restored["envs"] == state["envs"] and (restored["frames"] == state["frames"]).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "reset"),
    [
        *((make_agent, "wait"), (make_noisy_agent, "wait")),
        *((make_agent, "immediate"), (make_noisy_agent, "immediate")),
    ],
)
def test_groups_that_are_served_beside_one_another_equal_the_serial_sampler(made, reset):
    agent, got = made(GAMES[0]), {}
    for workers in (0, 4):
        sampler = make_sampler(
            GAMES[0], 16, 2, workers, threaded_inference=workers > 0, reset=reset, decorrelation_steps=10
        )
        try:
            got[workers], ended = digest(sampler, agent, 12)
            sampler.idle = np.arange(16) % 3 == 0
            got[workers] += digest(sampler, agent, 4)[0]
            sampler.idle = None
            got[workers] += digest(sampler, RandomAgent(sampler.spec.n_actions), 4)[0] + digest(sampler, agent, 4)[0]
        finally:
            sampler.close()
        assert ended > 10
    assert len(set(got.values())) == 1, got


@pytest.mark.parametrize("reset", ["immediate", slow("wait")])
def test_actions_that_depend_on_nothing_are_played_alike(reset):
    """If actions do not depend on observations, workers play a rollout without waits between groups of environments."""
    agent, got = RandomAgent(make_spec(GAMES[0], training=True).n_actions), {}
    for workers in (0, 3):
        sampler = make_sampler(GAMES[0], 12, 2, workers, reset=reset, decorrelation_steps=10)
        try:
            got[workers], ended = digest(sampler, agent, 12)
            sampler.idle = np.arange(12) % 3 == 0
            got[workers] += digest(sampler, agent, 4)[0]
            valid = sampler.collect(agent).valid[0].numpy()
        finally:
            sampler.close()
        assert ended > 10 and (valid == ~sampler.idle).all()
    assert len(set(got.values())) == 1, got


def test_environments_that_become_idle_are_skipped_from_the_next_rollout_that_begins():
    """The next rollout of random play begins in advance, so that a change of `idle` takes effect one rollout later."""
    sampler = make_sampler(GAMES[0], 4, 1, 0)
    rollouts, idle = sampler.rollouts(RandomAgent(sampler.spec.n_actions)), np.array([False, True, False, True])
    assert next(rollouts).valid.all()
    sampler.idle = idle
    assert next(rollouts).valid.all()  # had begun
    assert (next(rollouts).valid.numpy() == ~idle).all()
    rollouts.close()
    sampler.close()


@pytest.mark.slow  # as the next test
@pytest.mark.parametrize("reset", ["immediate", "cached", "wait"])
def test_rollouts_that_are_begun_ahead_are_those_that_are_collected(reset):
    """Rollouts are equal whether or not they begin in advance. If the iterator of rollouts is closed, the sampler's
    state includes the rollout that had begun."""
    agents = RandomAgent(make_spec(GAMES[0], training=True).n_actions), make_agent(GAMES[0])
    for agent in agents:
        got = {}
        for workers in (0, 3):
            sampler, other = (make_sampler(GAMES[0], 12, 1, workers, reset=reset) for _ in range(2))
            try:
                stream = sampler.rollouts(agent)
                got[workers], ended = digest_of(islice(stream, 12))
                if agent is agents[0] and reset != "wait":
                    for between in (lambda sampler=sampler: sampler.collect(agents[0]), sampler.state_dict):
                        with pytest.raises(RuntimeError, match="in flight"):
                            between()
                stream.close()
                begun = agent is agents[0] and reset != "wait"
                assert digest(other, agent, 12)[0] == got[workers] and ended > 10
                if begun:
                    other.collect(agent)
                assert list(sampler.episodes.recent) == list(other.episodes.recent)
                assert sampler.state_dict()["envs"] == other.state_dict()["envs"]
                assert digest(sampler, agents[1], 3) == digest(other, agents[1], 3)
            finally:
                sampler.close()
                other.close()
        assert len(set(got.values())) == 1, got


@pytest.mark.slow
@pytest.mark.parametrize("reset", ["immediate", "wait"])
def test_a_fixed_agent_plays_on_as_it_is_collected(reset):
    """Groups with separate threads begin the next rollout without waits for each other, and rollouts stay equal."""
    agent, random = make_agent(GAMES[0]), RandomAgent(make_spec(GAMES[0], training=True).n_actions)
    sampler = make_sampler(GAMES[0], 12, 2, 2, reset=reset, threaded_inference=True, decorrelation_steps=10)
    other = make_sampler(GAMES[0], 12, 2, 0, reset=reset, decorrelation_steps=10)
    try:
        for _ in range(2):
            stream = sampler.rollouts(agent, fixed=True)
            got, ended = digest_of(islice(stream, 12))
            begun = reset == "immediate"
            assert (sampler._in_flight == 1) == begun
            stream.close()
            assert digest(other, agent, 12)[0] == got and ended > 10
            if begun:
                other.collect(agent)
            assert list(sampler.episodes.recent) == list(other.episodes.recent)
            assert sampler.state_dict()["envs"] == other.state_dict()["envs"]
            assert digest(sampler, random, 3) == digest(other, random, 3)
            assert digest(sampler, agent, 3) == digest(other, agent, 3)
    finally:
        sampler.close()
        other.close()


@pytest.mark.parametrize(
    ("threaded", "fixed"),
    [*(slow(*pair) for pair in ((False, False), (True, False))), (True, True)],
)
def test_rollouts_of_an_agent_that_begins_to_look(threaded, fixed):
    """A rollout that has begun in advance keeps its random actions after the agent's epsilon was lowered."""
    agent = EpsilonGreedyAgent(QNetwork(make_spec(GAMES[0], training=True), SMALL))
    sampler, other = make_sampler(GAMES[0], 12, 2, 2, threaded_inference=threaded), make_sampler(GAMES[0], 12, 2, 0)
    try:
        stream = sampler.rollouts(agent, fixed)
        got = [digest_of([next(stream)])]
        agent.epsilon = 0.5
        got += [digest_of([next(stream)]) for _ in range(3)]
        agent.epsilon = 1.0
        want = [digest(other, agent, 1), digest(other, agent, 1)]
        agent.epsilon = 0.5
        assert got == [*want, digest(other, agent, 1), digest(other, agent, 1)]
        agent.epsilon = 1.0  # and looks no more
        assert all(next(stream).valid.all() for _ in range(4))
    finally:
        sampler.close()
        other.close()


@pytest.mark.skipif(len(allowed_cores()) < 2, reason="the cores tell the workers apart")
def test_a_slow_worker_keeps_only_itself_waiting(monkeypatch):
    monkeypatch.setenv("SLOW_CORE", str(allowed_cores()[0]))
    env = env_of(id="tests.environments:slow_on_one_core")
    sampler, order = make_sampler(env, 2, 2, 2, T=8, dedicated_workers=True), []
    agent, serve = make_agent(env), sampler.server.serve

    def noted(agent, buffer, t, group, meanwhile):
        order.append(group)
        serve(agent, buffer, t, group)

    sampler.server.serve = noted
    try:
        sampler.collect(agent)
    finally:
        sampler.close()
    assert sorted(order) == [0] * 8 + [1] * 8
    assert order[-4:] == [0] * 4, order  # Group 1 finished its rollout long before the slow group 0.


@pytest.mark.parametrize("reset", ["immediate", slow("wait")])
def test_the_serial_sampler_equals_a_loop_over_environments(reset):
    """The expected rollouts come from a loop over single environments, with plain lists of observations."""
    env, B, T, rollouts = GAMES[0], 4, 5, 30
    spec, agent = make_spec(env, training=True), make_agent(env)
    sampler = make_sampler(env, B, 1, 0, T=T, reset=reset)
    uniform = torch.Generator().manual_seed(1)
    batches = [make_batch(env, [env_seed(1, b)], True, reset, 0) for b in range(B)]
    out = Step.empty(1, spec)
    history = []
    for batch in batches:
        batch.reset(out)
        history.append([out.frame[0].copy()])

    def observation(frames):
        recent = frames[-spec.stack :]
        return np.stack([np.zeros_like(frames[0])] * (spec.stack - len(recent)) + recent)

    for _ in range(rollouts):
        got = sampler.collect(agent)
        u = torch.rand(T, B, generator=uniform)
        for t in range(T):
            obs = torch.from_numpy(np.stack([observation(h) for h in history]))
            valid = got.valid[t]
            cells = torch.arange(B)
            assert torch.equal(got.observation(torch.full((B,), t), cells)[valid], obs[valid])
            action, recorded = agent.act(obs, u[t])
            assert torch.equal(got.action[t][valid], action[valid])
            assert torch.equal(got.recorded["value"][t][valid], recorded["value"][valid])
            for b in range(B):
                batches[b].send(got.action[t, b : b + 1].numpy())
                batches[b].recv(out)
                assert bool(out.valid[0]) == bool(valid[b])
                if not out.valid[0]:
                    continue
                assert float(out.reward[0]) == float(got.reward[t, b])
                assert bool(out.ended[0]) == bool(got.ended[t, b])
                if out.ended[0]:
                    history[b].append(out.final_frame[0].copy())
                    last = got.final_observation(torch.tensor([t]), torch.tensor([b]))
                    assert torch.equal(last[0], torch.from_numpy(observation(history[b])))
                    history[b] = [out.frame[0].copy()] if reset == "immediate" else history[b]
                else:
                    history[b].append(out.frame[0].copy())
        if reset == "wait":
            for b in range(B):
                if not valid_after(got, b):
                    batches[b].reset_waiting(out)
                    history[b] = [out.frame[0].copy()]


def valid_after(rollout, b):
    """Whether environment b makes steps until the rollout's end. With --sampler.reset wait, an environment stops at the
    end of its episode."""
    return not bool(rollout.ended[:, b].any())


@pytest.mark.parametrize("reset", [*(slow(r) for r in ("wait", "swap")), "cached"])
def test_a_state_goes_on_bit_for_bit(reset):
    env = GAMES[1]
    agent = make_agent(env)
    for pair in ((0, 2), (1, 0)):
        sampler, other = (make_sampler(env, 8, 2, workers, reset=reset, decorrelation_steps=10) for workers in pair)
        try:
            digest(sampler, agent, 7)
            state = sampler.state_dict()
            want = digest(sampler, agent, 10)
            scores = list(sampler.episodes.recent)
            other.load_state_dict(state)
            assert digest(other, agent, 10) == want
            assert list(other.episodes.recent) == scores
        finally:
            sampler.close()
            other.close()


@pytest.mark.slow
def test_every_mode_of_reset_plays_the_same_episodes():
    """The agent's actions depend only on observations, so that all reset modes must play the same episodes."""
    env, B = GAMES[0], 4
    agent = make_agent(env).evaluating(greedy=True)
    played = {}
    for reset in ("immediate", "wait", "swap"):
        sampler = make_sampler(env, B, 2, 1, T=15, reset=reset, decorrelation_steps=10)
        own = played[reset] = [[[]] for _ in range(B)]
        try:
            for _ in range(9):
                r = sampler.collect(agent)
                for t, b in torch.nonzero(r.valid).tolist():
                    own[b][-1].append(
                        (r.frames[t + 3, b].numpy().tobytes(), int(r.action[t, b]), float(r.reward[t, b]))
                    )
                    if r.ended[t, b]:
                        own[b].append([])
            assert reset == "swap" or sampler.engine.late_resets() == 0
        finally:
            sampler.close()
    for reset in ("wait", "swap"):
        for a, b in zip(played["immediate"], played[reset], strict=True):
            n = min(len(a), len(b)) - 1  # the last is unfinished
            assert n >= 2 and a[:n] == b[:n], reset


def test_frames_before_the_rollout_are_the_last_ones_of_the_one_before():
    env = GAMES[2]
    sampler, agent = make_sampler(env, 4, 2, 0), make_agent(env)
    before = sampler.collect(agent)
    tail, age = before.frames[-4:].clone(), before.age[-1].clone()
    after = sampler.collect(agent)
    assert torch.equal(after.frames[:4], tail) and torch.equal(after.age[0], age)
    # The sampler has two rollout buffers, and did not overwrite the previous rollout.
    assert torch.equal(before.frames[-4:], tail)


def test_start_states_differ():
    sampler, agent = (
        make_sampler(env_of(game="pong"), 8, 2, 0, decorrelation_steps=200),
        make_agent(env_of(game="pong")),
    )
    frames = sampler.collect(agent).frames[3]
    assert len({f.numpy().tobytes() for f in frames}) == 8


def test_environments_left_alone_do_nothing():
    env = GAMES[0]
    sampler, agent = make_sampler(env, 4, 1, 0), make_agent(env)
    sampler.idle = np.array([False, True, False, True])
    r = sampler.collect(agent)
    assert r.valid.tolist() == [[True, False, True, False]] * 5
    assert (r.action[:, 1] == -1).all() and (r.reward[:, 1] == 0).all()


def test_numbers_that_are_not_finite_are_reported_once(warned):
    env = env_of(id="tests.environments:without_a_reward")
    sampler = make_sampler(env, 2, 1, 0)
    agent = RandomAgent(sampler.spec.n_actions)
    for _ in range(3):
        sampler.collect(agent)
    assert len(warned) == 1 and "the reward of environment 0 is not finite" in warned[0]
