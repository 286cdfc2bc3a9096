"""Recurrent agents learn from the same observations and recurrent states as they acted on."""

import pytest
import torch

from accel_rl.algos.a2c import A2C, A2CConfig
from accel_rl.algos.impala import IMPALA, IMPALAConfig
from accel_rl.algos.ppo import PPO, PPOConfig
from accel_rl.envs.make import make_spec
from accel_rl.optim.flat import FlatParameters
from accel_rl.samplers.engine import EngineSetup
from accel_rl.samplers.grouping import Grouping
from accel_rl.samplers.in_process import InProcessEngine
from accel_rl.samplers.sampler import Sampler
from tests.algos.made_up import ingest, update
from tests.env_settings import env_of

ENV = env_of(id="experiments.recall:make")
T, B = 6, 4  # An episode has 10 steps, so that some episodes end inside a rollout.


def build(cls, config, T=T, reset="immediate"):
    spec = make_spec(ENV, training=True)
    torch.manual_seed(0)
    algo = cls(config, spec, T=T, B=B)
    engine = InProcessEngine(EngineSetup(ENV, spec, Grouping(B, 2, 1), T, 0, reset=reset, decorrelation_steps=7))
    return algo, FlatParameters(algo.agent.model), Sampler(engine, spec, 0, reset=reset)


@pytest.mark.parametrize("reset", ["immediate", "wait"])
def test_learning_sees_what_acting_saw(reset):
    """A network that is unrolled from a rollout's recurrent state computes the values and log-probabilities of
    acting."""
    algo, _, sampler = build(PPO, PPOConfig(lstm=16), reset=reset)
    episodes = 0
    for _ in range(6):
        r = sampler.collect(algo.agent)
        ingest(algo, r)
        for batch in (algo.batch(), algo.batch(torch.tensor([2, 0]))):
            logits, value, _ = algo.agent.forward(batch.obs, batch.memory)
            log_prob = torch.log_softmax(logits, -1).gather(-1, batch.action[:, None].clamp(min=0))[:, 0]
            valid = slice(None) if batch.valid is None else batch.valid
            torch.testing.assert_close(value[valid], batch.recorded["value"][valid])
            torch.testing.assert_close(log_prob[valid], batch.recorded["log_prob"][valid])
        episodes += int(r.ended.sum())
    assert episodes >= 8


def test_the_state_goes_from_rollout_to_rollout_and_stops_at_episodes():
    algo, _, sampler = build(A2C, A2CConfig(lstm=16))
    before = None
    for _ in range(5):
        r = sampler.collect(algo.agent)
        if before is None:
            assert not r.state.any()
        else:
            assert torch.equal(r.state, before) and r.state.any()
        before = r.next_state


@pytest.mark.parametrize(
    ("cls", "config", "T"),
    [
        (A2C, A2CConfig(lstm=16), 6),
        (PPO, PPOConfig(lstm=16, minibatch=12, epochs=2), 6),
        (IMPALA, IMPALAConfig(lstm=16, window=6, batches=2), 3),
        (IMPALA, IMPALAConfig(lstm=16, window=6, batches=1), 6),
    ],
)
def test_every_algorithm_learns_with_a_memory(cls, config, T):
    algo, flat, sampler = build(cls, config, T)
    before, updates = flat.data.clone(), 0
    for _ in range(4):
        ingest(algo, sampler.collect(algo.agent))
        for batch in algo.batches():
            update(algo, flat, batch)
            updates += 1
    assert updates and not torch.equal(before, flat.data) and flat.data.isfinite().all()
    lstm = dict(algo.agent.model.named_parameters())["lstm.weight_hh"]
    assert lstm.grad is not None and lstm.grad.abs().sum() > 0


def test_the_value_past_a_time_limit_uses_the_memory_before_it():
    algo, _, sampler = build(A2C, A2CConfig(lstm=16))
    r = sampler.collect(algo.agent)
    r.truncated[2, 1] = r.ended[2, 1] = True
    r.terminated[2, 1] = False
    r.final_frames[2, 1] = torch.randn(r.final_frames.shape[2:])
    ingest(algo, r)
    got = algo.next_value(r, r.recorded["value"], torch.zeros(B))[2, 1]
    state = r.state[1:2]
    for t in range(3):
        first = (r.age[t, 1:2] == 0).view(1, 1)
        _, _, states = algo.agent.model(r.frames[t, 1:2], first, state)
        state = states[-1]
    want = algo.agent.model(r.final_frames[2, 1:2], torch.zeros(1, 1, dtype=torch.bool), state)[1]
    torch.testing.assert_close(got, want[0].detach())
