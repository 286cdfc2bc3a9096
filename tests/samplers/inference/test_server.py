"""Actions are computed in the precision that the run's settings choose, as updates are."""

import torch

from accel_rl.envs.make import make_spec
from accel_rl.models.precision import autocast_for
from accel_rl.samplers.engine import EngineSetup
from accel_rl.samplers.grouping import Grouping
from accel_rl.samplers.in_process import InProcessEngine
from accel_rl.samplers.sampler import Sampler
from tests.env_settings import env_of
from tests.samplers.conftest import make_agent


def test_what_is_recorded_is_what_the_learner_computes_in_the_same_precision():
    env = env_of(game="pong")
    spec, agent = make_spec(env, training=True), make_agent(env)
    for precision in ("float32", "bfloat16"):
        sampler = Sampler(
            InProcessEngine(EngineSetup(env, spec, Grouping(8, 1, 1), 3, 1)), spec, 1, precision=precision
        )
        rollout = sampler.collect(agent)
        obs, values = rollout.observations(0, 3), {}
        for name in ("float32", "bfloat16"):
            with torch.no_grad(), autocast_for(name, torch.device("cpu")):
                values[name] = agent.value(obs).view(3, 8)
        torch.testing.assert_close(rollout.recorded["value"], values[precision], rtol=1e-5, atol=1e-6)
        assert not torch.allclose(values["float32"], values["bfloat16"], rtol=1e-5, atol=1e-6)
        sampler.close()
