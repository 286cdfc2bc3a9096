import hashlib

import numpy as np
import pytest
import torch

from accel_rl.agents.epsilon_greedy import EpsilonGreedyAgent
from accel_rl.agents.policy import CategoricalPolicyAgent
from accel_rl.envs.make import EnvConfig, make_spec
from accel_rl.machine.hardware import allowed_cores
from accel_rl.models.actor_critic import ActorCritic
from accel_rl.models.convolution import ConvNet
from accel_rl.models.q_network import QNetwork
from accel_rl.samplers.engine import EngineSetup
from accel_rl.samplers.grouping import Grouping
from accel_rl.samplers.in_process import InProcessEngine
from accel_rl.samplers.inference.threads import InferenceThreads
from accel_rl.samplers.sampler import Sampler
from accel_rl.samplers.workers.pool import PoolConfig, WorkerPool
from accel_rl.speed.captured_acting import CapturedActing

ARRAYS = ("frames", "age", "action", "reward", "terminated", "truncated", "ended", "valid")


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Small(ConvNet):
    """A cheap network whose outputs depend on every pixel."""

    layers = ((4, 8, 8, 0),)
    hidden = 16


SMALL = f"{__name__}:Small"


def make_agent(env: EnvConfig):
    torch.manual_seed(0)
    return CategoricalPolicyAgent(ActorCritic(make_spec(env, training=True), SMALL))


def make_noisy_agent(env: EnvConfig):
    torch.manual_seed(0)
    return EpsilonGreedyAgent(QNetwork(make_spec(env, training=True), SMALL, sigma=0.5), epsilon=0.0)


def make_sampler(
    env,
    B,
    groups,
    workers,
    T=5,
    seed=1,
    reset="immediate",
    decorrelation_steps=0,
    dedicated_workers=False,
    threaded_inference=False,
    device="cpu",
    capture=True,
    **pool,
):
    """Return a sampler. With 0 workers, one process steps all environments.

    With `threaded_inference`, each group of environments has its own worker processes and inference thread.
    """
    spec, grouping = (
        make_spec(env, training=True),
        Grouping(B, groups, max(workers, 1), dedicated_workers or threaded_inference),
    )
    of_setup = {name: pool.pop(name) for name in ("buffers", "training", "first_index") if name in pool}
    setup = EngineSetup(env, spec, grouping, T, seed, reset=reset, decorrelation_steps=decorrelation_steps, **of_setup)
    if workers:
        cores = allowed_cores()
        config = PoolConfig(cores=tuple(cores[i % len(cores)] for i in range(workers)), **pool)
        engine = WorkerPool(setup, config)
    else:
        engine = InProcessEngine(setup)
    cores_of = [[allowed_cores()[g % len(allowed_cores())]] for g in range(groups)]
    threads = InferenceThreads(engine, cores_of, 1) if threaded_inference else None
    return Sampler(
        engine, spec, seed, reset=reset, threads=threads, device=device, acceleration=CapturedActing(capture)
    )


def digest(sampler, agent, rollouts):
    """Return the SHA-256 digest of the sampler's next `rollouts` rollouts, and the number of ended episodes."""
    return digest_of(sampler.collect(agent) for _ in range(rollouts))


def digest_of(rollouts):
    """Return the SHA-256 digest of all arrays, including final frames of ended episodes, and the number of ended
    episodes."""
    h, ended = hashlib.sha256(), 0
    for r in rollouts:
        for name in ARRAYS:
            h.update(np.ascontiguousarray(getattr(r, name).cpu().numpy()))
        h.update(r.final_frames[r.ended].cpu().numpy())
        for name in sorted(r.recorded):
            h.update(r.recorded[name].cpu().numpy())
        ended += int(r.ended.sum())
    return h.hexdigest(), ended
