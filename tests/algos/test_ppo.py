"""PPO's updates against a plain textbook implementation, and properties of its minibatches."""

import pytest
import torch

from accel_rl.algos.ppo import PPO, PPOConfig
from accel_rl.optim.flat import FlatParameters
from tests.algos.made_up import SPEC, B, T, act_over, ingest, rollout, updates


def build(config, seed=0):
    torch.manual_seed(seed)
    algo = PPO(config, SPEC, T=T, B=B)
    return algo, FlatParameters(algo.agent.model)


def textbook(algo, r, config, minibatches):
    """Autograd, torch.optim.Adam, torch's clip; GAE by its recursion; cells (t, b) by their index t * B + b."""
    model = algo.agent.model
    one = lambda t, b: r.observation(torch.tensor([t]), torch.tensor([b]))  # noqa: E731
    with torch.no_grad():
        old_value, old_logp, following = {}, {}, {}
        for b in range(B):
            for t in range(T):
                logits, value = model(one(t, b))
                old_value[t, b] = value.item()
                old_logp[t, b] = torch.distributions.Categorical(logits=logits[0]).log_prob(r.action[t, b]).item()
            old_value[T, b] = model(one(T, b))[1].item()
            for t in range(T):
                following[t, b] = old_value[t + 1, b]
                if r.truncated[t, b]:
                    following[t, b] = model(r.final_observation(torch.tensor([t]), torch.tensor([b])))[1].item()
    advantage = {}
    for b in range(B):
        after = 0.0
        for t in reversed(range(T)):
            goes_on = 1.0 - float(r.terminated[t, b])
            reward = max(-1.0, min(1.0, float(r.reward[t, b])))
            delta = reward + config.gamma * goes_on * following[t, b] - old_value[t, b]
            chain = goes_on * (1.0 - float(r.truncated[t, b]))
            after = delta + config.gamma * config.gae_lambda * chain * after
            advantage[t, b] = after
    optimizer = torch.optim.Adam(model.parameters(), lr=config.learning_rate, eps=config.optimizer_eps)
    for indices in minibatches:
        cells = [divmod(int(i), B) for i in indices]
        a = torch.tensor([advantage[c] for c in cells])
        target = a + torch.tensor([old_value[c] for c in cells])
        a = (a - a.mean()) / (a.std() + 1e-8)
        logits, value = model(torch.cat([one(*c) for c in cells]))
        d = torch.distributions.Categorical(logits=logits)
        ratio = torch.exp(
            d.log_prob(torch.stack([r.action[c] for c in cells])) - torch.tensor([old_logp[c] for c in cells])
        )
        surrogate = torch.min(ratio * a, torch.clamp(ratio, 1 - config.clip, 1 + config.clip) * a).mean()
        loss = -surrogate + config.value_coefficient * ((value - target) ** 2).mean()
        loss = loss - config.entropy_coefficient * d.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip_grad_norm)
        optimizer.step()
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach()


@pytest.mark.parametrize("invalid", [False, True])
def test_updates_equal_the_textbook(invalid):
    config = PPOConfig(minibatch=10, epochs=2, learning_rate=1e-4, learning_rate_schedule="constant")
    r = rollout(invalid=invalid)
    algo, flat = build(config)
    act_over(algo, r)
    cells = r.valid.reshape(-1).nonzero().squeeze(-1)
    parts = -(-len(cells) // config.minibatch)
    torch.manual_seed(7)
    minibatches = [i for _ in range(config.epochs) for i in cells[torch.randperm(len(cells))].tensor_split(parts)]
    twin, _ = build(config)
    want = textbook(twin, r, config, minibatches)

    torch.manual_seed(7)
    ingest(algo, r)
    losses = list(updates(algo, flat, algo.batches()))
    assert len(losses) == len(minibatches)
    updated = torch.nn.utils.parameters_to_vector(algo.agent.model.parameters()).detach()
    torch.testing.assert_close(updated, want, atol=1e-5, rtol=0)


def ingested(config, **kw):
    r = rollout(**kw)
    algo, _ = build(config)
    act_over(algo, r)
    ingest(algo, r)
    return algo, r


def test_every_valid_cell_once_an_epoch_and_minibatches_of_even_size():
    algo, r = ingested(PPOConfig(minibatch=7, epochs=3), invalid=True)
    algo.rollout.recorded["value"] = torch.arange(T * B).view(T, B).float()  # marks the cells
    batches = list(algo.batches())
    sizes = {len(b.action) for b in batches}
    assert max(sizes) - min(sizes) <= 1 and max(sizes) <= 7
    seen = torch.cat([b.recorded["value"] for b in batches]).long().sort().values
    want = r.valid.reshape(-1).nonzero().squeeze(-1).repeat_interleave(3)
    assert torch.equal(seen, want)


def test_a_rollout_without_a_valid_cell_gives_no_update():
    r = rollout()
    r.valid[:] = False
    algo, _ = build(PPOConfig())
    act_over(algo, r)
    ingest(algo, r)
    assert list(algo.batches()) == []


def test_advantages_are_normalised_over_what_is_asked():
    for over in ("minibatch", "rollout", "none"):
        algo, _ = ingested(PPOConfig(minibatch=10, epochs=1, normalize_advantage=over))
        parts = [b.advantage for b in algo.batches()]
        whole = torch.cat(parts)
        centred = [abs(p.mean().item()) < 1e-5 and abs(p.std().item() - 1) < 1e-4 for p in parts]
        assert all(centred) == (over == "minibatch")
        assert (abs(whole.mean().item()) < 1e-5 and abs(whole.std().item() - 1) < 1e-4) == (over == "rollout")


def test_epochs_stop_when_the_policy_has_moved_too_far():
    config = PPOConfig(minibatch=10, epochs=50, learning_rate=1e-3, target_kl=0.01, clip_grad_norm=0)
    algo, _ = ingested(config)
    flat = FlatParameters(algo.agent.model)
    kls = [loss.metrics["kl"].item() for loss in updates(algo, flat, algo.batches())]
    assert 1 < len(kls) < 150
    assert all(k <= 0.015 for k in kls[:-1]) and kls[-1] > 0.015


def test_schedules_shrink_step_and_clip():
    algo, _ = build(PPOConfig(clip_schedule="linear"))
    assert algo.schedules(0.75, 0) == pytest.approx({"learning_rate": 0.25e-3, "clip": 0.25 * 0.2})
