"""Training in bfloat16: only matrix products and convolutions are bfloat16; outputs and parameters are float32."""

import pytest
import torch

from accel_rl.data.spec import EnvSpec
from accel_rl.models import precision
from accel_rl.models.actor_critic import ActorCritic
from accel_rl.models.q_network import CategoricalQNetwork, QNetwork
from accel_rl.models.recurrent import RecurrentActorCritic

SPEC = EnvSpec(name="pong", n_actions=6, frame_shape=(84, 84), frame_dtype="uint8", stack=4)


@pytest.fixture
def obs():
    return torch.randint(0, 256, (40, 4, 84, 84), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def made(kind):
    torch.manual_seed(0)
    return {
        "policy": lambda: ActorCritic(SPEC, "a3c"),
        "values": lambda: QNetwork(SPEC, "nature", is_dueling=True),
        "noisy": lambda: CategoricalQNetwork(SPEC, "a3c", 21, -10, 10, sigma=0.5),
    }[kind]()


@pytest.mark.parametrize("worth", [1, 128])
@pytest.mark.parametrize("kind", ["policy", "values", "noisy"])
def test_it_is_close_to_float32(kind, worth, obs, monkeypatch):
    monkeypatch.setattr(precision, "WORTH_CONVERTING", worth)
    model, found = made(kind), []
    for name in ("float32", "bfloat16"):
        with precision.autocast_for(name, torch.device("cpu")):
            out = model(obs)
        out = torch.cat([x.reshape(len(obs), -1) for x in (out if isinstance(out, tuple) else (out,))], 1)
        assert out.dtype == torch.float32
        model.zero_grad()
        out.square().sum().backward()
        found.append((out.detach(), torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])))
    (out, grad), (out_16, grad_16) = found
    assert not torch.equal(out, out_16)  # it did something
    assert (out - out_16).norm() < 0.02 * out.norm()
    assert grad_16.dtype == torch.float32 and (grad - grad_16).norm() < 0.05 * grad.norm()


def test_memory_stays_exact(obs):
    model = RecurrentActorCritic(SPEC, 8)
    with precision.autocast_for("bfloat16", torch.device("cpu")):
        logits, value, after = model(obs, torch.zeros(10, 4, dtype=torch.bool), torch.zeros(4, 16))
    assert logits.dtype == value.dtype == after.dtype == torch.float32


def test_a_cpu_without_it_is_told_once(monkeypatch, tmp_path):
    lines = []
    monkeypatch.setattr(precision, "say_once", lines.append)
    for flags, told in (("flags: avx2 avx512f avx512_bf16\n", 1), ("flags: avx2 amx_bf16 amx_tile\n", 1)):
        cpuinfo = tmp_path / f"cpuinfo_{len(flags)}"
        cpuinfo.write_text(flags)
        monkeypatch.setattr(precision, "CPUINFO", cpuinfo)
        precision.autocast_for("bfloat16", torch.device("cpu"))
        precision.autocast_for("float32", torch.device("cpu"))
        assert len(lines) == told
