"""Updates are captured and replayed with equal bits, or run from Python after one line that gives the reason."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from accel_rl.agents.policy import CategoricalPolicyAgent
from accel_rl.algos.a2c import A2C, A2CConfig
from accel_rl.algos.policy_gradient import PolicyBatch
from accel_rl.algos.ppo import PPO
from tests.golden.runs import POLE, config
from tests.gpu.runs import GPU, play
from tests.marks import slow

NAME = "tests.speed.test_captured_updates"


class WithABonus(A2C):
    """A user's algorithm whose loss uses a scheduled number and a recorded tensor of the batch. Updates can be
    captured."""

    def schedules(self, progress, env_steps):
        return {**super().schedules(progress, env_steps), "bonus": 1e-3 * env_steps}

    def loss(self, batch):
        loss = super().loss(batch)
        loss.total = (
            loss.total * (1 + self.now.bonus) + batch.recorded["value"].mean() * self.agent.model.heads.value.bias.sum()
        )
        return loss


class Waiting(A2C):
    def loss(self, batch):
        loss = super().loss(batch)
        loss.total = loss.total * (2.0 if loss.total.item() > 0 else 1.0)
        return loss


class Replacing(A2C):
    """A user's algorithm whose loss reads an attribute that each rollout replaces by a new tensor."""

    def ingest(self, rollout):
        super().ingest(rollout)
        self.scale = rollout.reward.mean() + len(rollout.recorded)

    def loss(self, batch):
        loss = super().loss(batch)
        loss.total = loss.total * self.scale
        return loss


class ReplacingInAMethod(Replacing):
    """Like `Replacing`, but the loss calls a method, stored as an attribute, which reads the tensor."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.weight = self.scaled

    def scaled(self):
        return self.scale

    def loss(self, batch):
        loss = A2C.loss(self, batch)
        loss.total = loss.total * self.weight()
        return loss


class HookedGradients(A2C):
    """A user's algorithm with a gradient hook that reads a Python number, which each update changes."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.share = 1.0
        next(self.agent.model.parameters()).register_hook(lambda grad: grad * self.share)

    def after_update(self, batch, loss):
        self.share *= 0.9


class CountingUpdates(A2C):
    """A user's algorithm whose loss depends on a count of updates in Python."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.made = 0

    def loss(self, batch):
        loss = super().loss(batch)
        loss.total = loss.total / (1 + 0.1 * self.made)
        return loss

    def after_update(self, batch, loss):
        self.made = self.made + 1


class CountingNet(nn.Module):
    """A user's network whose logits depend on a count of forward passes in Python."""

    def __init__(self, inputs, actions):
        super().__init__()
        self.policy, self.value, self.passes = nn.Linear(inputs, actions), nn.Linear(inputs, 1), 0

    def forward(self, obs):
        x = obs.flatten(1)
        if self.training:
            self.passes += 1
        return self.policy(x) / (1 + 0.1 * self.passes), self.value(x).squeeze(-1)


class CountingNetwork(A2C):
    def build_agent(self, spec):
        return CategoricalPolicyAgent(CountingNet(spec.frame_shape[0] * spec.stack, spec.n_actions))


class ManyKinds(PPO):
    """A user's algorithm whose batches contain a tensor of 40 different sizes."""

    def batches(self):
        for i, batch in enumerate(super().batches()):
            batch.recorded["n"] = torch.zeros(1 + i % 40, device=self.device)
            yield batch


@pytest.mark.parametrize(
    ("cls", "why"),
    [
        ("WithABonus", ""),
        ("Waiting", "operation"),
        slow("Replacing", "'scale' of Replacing, which its update reads, changes"),
        slow("ReplacingInAMethod", "'scale' of ReplacingInAMethod, which its update reads, changes"),
        slow("HookedGradients", "the gradient of body.layers.0.weight has a hook"),
        slow("CountingUpdates", "an update changes 'made' of CountingUpdates"),
        slow("CountingNetwork", "an update changes CountingNet.passes"),
    ],
)
def test_a_subclass_trains_as_on_the_cpu_captured_or_not(simulated_gpu, tmp_path, cls, why):
    run = config(f"{NAME}:{cls}", POLE)
    on_cpu, found = play(run, "cpu", tmp_path / "cpu"), play(run, GPU, tmp_path / "gpu")
    torch.testing.assert_close(on_cpu.parameters[0], found.parameters[0], atol=2e-5, rtol=1e-4)
    lines = [line for line in found.events.splitlines() if "updates are not captured" in line]
    assert len(lines) == bool(why) and all(why in line for line in lines), lines
    if not why:
        eager = play(replace(run, capture_updates=False), GPU, tmp_path / "eager")
        assert torch.equal(eager.parameters[0], found.parameters[0])


class WaitingForAdvantages(A2C):
    def advantages(self, rollout, value, bootstrap):
        advantage = super().advantages(rollout, value, bootstrap)
        return advantage * (2.0 if advantage.sum().item() > 0 else 1.0)


class LastFrames(A2C):
    """A user's algorithm whose advantages read final frames, which are not copied to fixed addresses."""

    def advantages(self, rollout, value, bootstrap):
        return super().advantages(rollout, value, bootstrap) + 0 * rollout.final_frames[0].float().mean()


class WaitingOnTheHost(A2C):
    """A user's algorithm whose advantages read the copy of the rollout on the host."""

    def advantages(self, rollout, value, bootstrap):
        scale = 1 + 0.1 * int(rollout.on_host.terminated.sum())
        return super().advantages(rollout, value, bootstrap) * scale


class WithBatches(A2C):
    """A user's algorithm whose batches are changed copies of the samples, which a capture must not overwrite."""

    def batches(self):
        for _ in range(3):
            yield replace(self.samples, advantage=0.5 * self.samples.advantage, target=self.samples.target + 1)

    def loss(self, batch):
        r = batch.rollout
        flat = (x.reshape(-1) for x in (r.action, batch.advantage, batch.target))
        return super().loss(PolicyBatch(r.observations(0, r.T), *flat, None, {}))


@pytest.mark.parametrize(
    ("cls", "why"),
    [
        ("WaitingForAdvantages", "advantages are not captured as CUDA graphs, Python runs for each of them: operation"),
        slow("LastFrames", "advantages are not captured as CUDA graphs, Python runs for each of them: 'NoneType'"),
        slow("WaitingOnTheHost", "advantages are not captured as CUDA graphs, Python runs for each of them: operation"),
        slow("WithBatches", ""),
    ],
)
def test_a_subclass_with_advantages_or_batches_of_its_own(simulated_gpu, tmp_path, cls, why):
    run = config(f"{NAME}:{cls}", POLE)
    on_cpu, found = play(run, "cpu", tmp_path / "cpu"), play(run, GPU, tmp_path / "gpu")
    torch.testing.assert_close(on_cpu.parameters[0], found.parameters[0], atol=2e-5, rtol=1e-4)
    eager = play(replace(run, capture_updates=False), GPU, tmp_path / "eager")
    assert torch.equal(eager.parameters[0], found.parameters[0])
    lines = [line for line in found.events.splitlines() if "not captured" in line]
    assert len(lines) == bool(why) and all(line.startswith(why) for line in lines), lines


@pytest.mark.parametrize(
    ("optimizer", "why"),
    [
        slow("torch:AdamW(weight_decay=0.1)", ""),
        ("torch:SGD(momentum=0.9)", "torch.optim.SGD waits for the GPU"),
    ],
)
def test_an_optimizer_of_torch_trains_as_on_the_cpu(simulated_gpu, tmp_path, optimizer, why):
    run = config("a2c", POLE, optimizer=optimizer)
    on_cpu, found = play(run, "cpu", tmp_path / "cpu"), play(run, GPU, tmp_path / "gpu")
    torch.testing.assert_close(on_cpu.parameters[0], found.parameters[0], atol=2e-5, rtol=1e-4)
    lines = [line for line in found.events.splitlines() if "updates are not captured" in line]
    assert len(lines) == bool(why) and all(line.endswith(why) for line in lines), lines


@pytest.mark.slow
def test_the_number_of_graphs_is_limited(simulated_gpu, tmp_path):
    run = config(f"{NAME}:ManyKinds", POLE, horizon=20, minibatch=4, epochs=1)
    found = play(run, GPU, tmp_path / "gpu", 2)
    assert found.events.count("more than 16 kinds of batches") == 1


def test_settings_of_a_subclass_of_the_base_class():
    from accel_rl.algos.policy_gradient import PolicyGradient
    from tests.algos.made_up import SPEC, B, T, act_over, ingest, rollout

    class Mine(PolicyGradient):
        loss = A2C.loss

    algo, r = Mine(Mine.Config(), SPEC, T=T, B=B), rollout()
    theirs = A2C(A2CConfig(), SPEC, T=T, B=B)
    theirs.agent.model.load_state_dict(algo.agent.model.state_dict())
    act_over(algo, r)
    for one in (algo, theirs):
        ingest(one, r)
    (mine,), (batch,) = algo.batches(), theirs.batches()
    assert torch.equal(algo.loss(mine).total, theirs.loss(batch).total)
