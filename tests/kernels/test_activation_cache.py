"""Activations cached while acting are used by the following update, and by no other."""

from dataclasses import replace

import pytest
import torch

from accel_rl.algos.a2c import A2C, A2CConfig
from accel_rl.envs.make import EnvConfig, make_spec
from accel_rl.kernels.activation_cache import ActivationCache, reading
from accel_rl.kernels.native import compiled
from accel_rl.models.linear import Linear
from accel_rl.models.precision import autocast_for
from accel_rl.optim.flat import FlatParameters
from accel_rl.samplers.grouping import Grouping
from accel_rl.samplers.in_process import InProcessEngine
from accel_rl.samplers.sampler import Sampler

T, B = 3, 8
HOST = compiled()
LAYERS = 4 if HOST is not None and HOST.has_avx512() else 1


@pytest.fixture(params=["nature", "a3c-lstm"])
def played(request):
    """(algorithm, its flat parameters, rollout), with outputs kept, in two groups."""
    network, _, lstm = request.param.partition("-")
    env = EnvConfig(game="pong").resolved()
    spec = make_spec(env, training=True)
    torch.manual_seed(0)
    algo = A2C(A2CConfig(network=network, lstm=32 if lstm else 0), spec, T=T, B=B)
    flat = FlatParameters(algo.agent.model)
    sampler = Sampler(InProcessEngine(env, spec, Grouping(B, 2, 1), T, 1), spec, 1, cache_activations=True)
    for _ in range(3):  # the same buffer again
        rollout = sampler.collect(algo.agent)
    yield algo, flat, rollout
    sampler.close()


def gradient(algo, flat, batch):
    with reading(batch.obs):  # as the learner does
        loss = algo.loss(batch).total
    flat.backward(loss)
    return flat.grad.clone()


def whole(algo, rollout):
    algo.ingest(rollout)
    (batch,) = algo.phase()
    return batch


def spoil(rollout):
    """Overwrite the cached activations with NaN, which every use of them would then show."""
    for out in rollout.activation_cache._outputs.values():
        out.fill_(float("nan"))


def test_the_gradient_is_the_same(played):
    algo, flat, rollout = played
    batch = whole(algo, rollout)
    assert len(rollout.activation_cache._outputs) >= min(LAYERS, 3)
    kept = gradient(algo, flat, batch)
    computed = gradient(algo, flat, batch)  # the second time nothing is kept
    torch.testing.assert_close(kept, computed, rtol=1e-4, atol=1e-7)
    assert computed.norm() > 0


def test_it_is_read_once(played):
    algo, flat, rollout = played
    batch = whole(algo, rollout)
    spoil(rollout)
    assert not gradient(algo, flat, batch).isfinite().all()
    assert gradient(algo, flat, batch).isfinite().all()
    assert gradient(algo, flat, whole(algo, rollout)).isfinite().all()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda batch: replace(batch, obs=batch.obs.roll(1, -1)), id="another tensor"),
        pytest.param(lambda batch: batch.obs.clamp_(max=100) is not None and batch, id="changed in place"),
    ],
)
def test_augmented_observations_are_looked_at(played, change):
    algo, flat, rollout = played
    batch = change(whole(algo, rollout))
    spoil(rollout)
    assert gradient(algo, flat, batch).isfinite().all()


def test_not_of_a_rollout_that_lacks_cells(played):
    algo, flat, rollout = played
    rollout.valid[1, 2] = False
    spoil(rollout)
    assert gradient(algo, flat, whole(algo, rollout)).isfinite().all()


def test_not_of_another_rollout(played):
    algo, flat, rollout = played
    rollout.activation_cache.begin(torch.zeros(T, B))
    with rollout.activation_cache.writing(0):
        algo.agent.value(rollout.observations(0, T), rollout.memory(0, T))
    spoil(rollout)
    assert gradient(algo, flat, whole(algo, rollout)).isfinite().all()


def test_a_layer_used_twice_is_computed():
    layer, cache, x = Linear(4, 4), ActivationCache(), torch.randn(6, 4)
    FlatParameters(layer)
    action = torch.zeros(2, 3)
    cache.begin(action)
    with torch.no_grad(), cache.writing(0):
        layer(layer(x))
    cache.observe(x, action)
    with reading(x):
        torch.testing.assert_close(layer(layer(x)), x @ (layer.weight @ layer.weight).t() + layer(layer.bias[None]))


@pytest.mark.skipif(HOST is None or not HOST.has_amx(), reason="needs AMX")
def test_in_bfloat16(played):
    algo, flat, rollout = played
    action = rollout.action
    batch = whole(algo, rollout)
    rollout.activation_cache.begin(action)
    with autocast_for("bfloat16", torch.device("cpu")):
        with torch.no_grad(), rollout.activation_cache.writing(0):
            algo.agent.forward(batch.obs, batch.memory)
        rollout.activation_cache.observe(batch.obs, action)
        assert any(out.dtype == torch.bfloat16 for out in rollout.activation_cache._outputs.values())
        kept = gradient(algo, flat, batch)
        torch.testing.assert_close(kept, gradient(algo, flat, batch), rtol=1e-2, atol=1e-5)
