"""One update of A2C against a plain textbook implementation."""

import math

import pytest
import torch

from accel_rl.algos.a2c import A2C, A2CConfig
from accel_rl.optim.flat import FlatParameters
from tests.algos.made_up import SPEC, B, T, act_over, ingest, rollout, update


def build(config=None, seed=0):
    torch.manual_seed(seed)
    algo = A2C(config or A2CConfig(), SPEC, T=T, B=B)
    return algo, FlatParameters(algo.agent.model)


def textbook_update(algo, r, config):
    """n-step returns by a loop over cells, autograd, torch's clip and a hand-written RMSProp step."""
    model = algo.agent.model
    obs = lambda t, b: r.observation(torch.tensor([t]), torch.tensor([b]))  # noqa: E731
    V = lambda o: model(o)[1].item()  # noqa: E731
    losses_p, losses_v, entropies = [], [], []
    for b in range(B):
        for t in range(T):
            if not r.valid[t, b]:
                continue
            ret, discount = 0.0, 1.0
            for k in range(t, T):
                ret += discount * float(r.reward[k, b].clamp(-1, 1))
                discount *= config.gamma
                if r.terminated[k, b]:
                    break
                if r.truncated[k, b]:
                    ret += discount * V(r.final_observation(torch.tensor([k]), torch.tensor([b])))
                    break
                if k == T - 1:
                    ret += discount * V(obs(T, b))
            logits, value = model(obs(t, b))
            d = torch.distributions.Categorical(logits=logits[0])
            losses_p.append(-d.log_prob(r.action[t, b]) * (ret - value.item()))
            losses_v.append((ret - value[0]) ** 2)
            entropies.append(d.entropy())
    mean = lambda x: torch.stack(x).mean()  # noqa: E731
    loss = mean(losses_p) + config.value_coefficient * mean(losses_v) - config.entropy_coefficient * mean(entropies)
    params = list(model.parameters())
    grads = torch.autograd.grad(loss, params)
    norm = torch.sqrt(sum(g.square().sum() for g in grads))
    scale = min(1.0, config.clip_grad_norm / (norm.item() + 1e-6))
    rate = 7e-4 * math.sqrt(T * B / 80)
    new = []
    for p, g in zip(params, grads, strict=True):
        g = g * scale
        v = (1 - config.rmsprop_alpha) * g * g
        new.append((p - rate * g / torch.sqrt(v + config.optimizer_eps)).detach().reshape(-1))
    return torch.cat(new), loss.item()


@pytest.mark.parametrize("invalid", [False, True])
def test_an_update_equals_the_textbook(invalid):
    config = A2CConfig(optimizer="rmsprop")  # the other rule makes a first step of +-10 lr from the smallest gradient
    r = rollout(invalid=invalid)
    algo, flat = build(config)
    want, want_loss = textbook_update(algo, r, config)
    act_over(algo, r)
    ingest(algo, r)
    (batch,) = list(algo.batches())
    loss = update(algo, flat, batch)
    assert loss.total.item() == pytest.approx(want_loss, abs=1e-5)
    updated = torch.nn.utils.parameters_to_vector(algo.agent.model.parameters()).detach()
    torch.testing.assert_close(updated, want, atol=1e-5, rtol=0)


def test_learning_rate_grows_with_the_root_of_the_batch():

    def rate(T, B, **k):
        return A2C(A2CConfig(**k), SPEC, T=T, B=B).schedules(0.0, 0)["learning_rate"]

    assert rate(5, 16) == pytest.approx(7e-4)
    assert rate(5, 64) == pytest.approx(14e-4)
    assert rate(5, 512) == pytest.approx(3e-3)  # the paper's cap
    assert rate(5, 512, learning_rate_scaling="none") == pytest.approx(7e-4)


def test_learning_rate_in_proportion_to_the_batch():
    """Clemente et al. 2017; the cap is the paper's."""

    def rate(B, **k):
        algo = A2C(A2CConfig(learning_rate_scaling="linear", **k), SPEC, T=5, B=B)
        return algo.schedules(0.0, 0)["learning_rate"]

    assert rate(16) == pytest.approx(7e-4) and rate(32) == pytest.approx(14e-4) and rate(512) == pytest.approx(3e-3)
    assert rate(512, max_learning_rate=1.0) == pytest.approx(32 * 7e-4)


@pytest.mark.parametrize(("progress", "expected"), [(0.0, 7e-4), (0.025, 14e-4), (0.05, 21e-4), (0.5, 21e-4)])
def test_warmup_goes_from_the_reference_to_the_scaled_step_size(progress, expected):
    """Goyal et al. 2017, section 2.2."""
    algo = A2C(A2CConfig(warmup=0.05), SPEC, T=5, B=9 * 16)
    assert algo.schedules(progress, 0)["learning_rate"] == pytest.approx(expected)


def test_linear_schedule():
    algo, _ = build(A2CConfig(learning_rate_schedule="linear", learning_rate_scaling="none"))
    assert algo.schedules(0.25, 0)["learning_rate"] == pytest.approx(0.75 * 7e-4)


def test_invalid_cells_do_not_matter():
    r = rollout(invalid=True)
    losses = []
    for noise in (0.0, 100.0):
        algo, _ = build()
        act_over(algo, r)
        r.action[~r.valid] = 0
        ingest(algo, r)
        algo.advantage[~r.valid] += noise
        batch = algo.batch()
        losses.append(algo.loss(batch).total.item())
    assert losses[0] == losses[1]
