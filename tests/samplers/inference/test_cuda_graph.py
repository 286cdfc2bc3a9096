"""Acts that are replayed from what was captured equal those that are called at every step.

On a GPU by CUDA graphs; here what was captured is a list of torch's operations on fixed memory, which is all that a
graph knows: whatever Python decided at the captured step stays as it was.
"""

import sys
from contextlib import nullcontext

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from accel_rl.models.q_network import CategoricalQNetwork
from accel_rl.samplers.inference.cuda_graph import CudaGraphInference
from accel_rl.system import hardware
from tests.samplers.conftest import digest_of, make_agent, make_sampler
from tests.samplers.inference.test_captured import ENV, SPEC, Counting, anneal, apart, learn, q_agent, replace

pytestmark = pytest.mark.filterwarnings("ignore:the extension for the host is not built")


class Tape(TorchDispatchMode):
    """What a function did, to be done again in the same memory."""

    captured = 0

    def __call__(self, step):
        with Tape() as tape:
            step()
        Tape.captured += 1
        return tape.replay

    def __enter__(self):
        self.done = []
        return super().__enter__()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func.overloadpacket.__name__ != "_local_scalar_dense", "a GPU would be waited for"
        out = func(*args, **(kwargs or {}))
        self.done.append((func, args, kwargs or {}, out))
        return out

    @torch.no_grad()
    def replay(self):
        for func, args, kwargs, out in self.done:
            again = func(*args, **kwargs)
            if not (func.is_view or "empty" in func.overloadpacket.__name__):
                for old, new in zip(*(x if isinstance(x, tuple) else (x,) for x in (out, again)), strict=True):
                    if old is not new:
                        old.copy_(new)


@pytest.fixture(autouse=True)
def only_torch(monkeypatch):
    """As for tensors on a GPU."""
    monkeypatch.setitem(sys.modules, "accel_rl.kernels._native", None)
    monkeypatch.setattr(Tape, "captured", 0)


def play(agent, graphed, n=6, between=lambda agent, i: None, groups=2, capture=None, device="cpu"):
    sampler = make_sampler(ENV, 8, groups, 0, device=device)
    server = sampler.server
    if graphed and device == "cpu":
        server._inference = CudaGraphInference(
            server._groups, server.host, server.rollouts, server._act_on, capture=capture or Tape()
        )
    elif not graphed:
        server._inference.replay = lambda *_: False
        server._inference.capturing = lambda *_: nullcontext()
    try:

        def rollouts():
            for i in range(n):
                between(agent, i)
                yield sampler.collect(agent)

        return digest_of(rollouts())
    finally:
        sampler.close()


def c51_agent():
    torch.manual_seed(0)
    agent = q_agent()
    agent.model = CategoricalQNetwork(SPEC, "a3c", 11, -10, 10)
    return agent


def dueling_agent():
    return q_agent(is_dueling=True)


def policy():
    return make_agent(ENV)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("make", [policy, q_agent, dueling_agent, c51_agent])
def test_the_same_as_called(make, groups):
    want = play(make(), False, groups=groups)
    assert play(make(), True, groups=groups) == want
    assert Tape.captured == 2 * groups  # for each buffer


@pytest.mark.parametrize("between", [anneal, apart])
def test_an_epsilon_that_changes(between):
    assert play(q_agent(), True, between=between) == play(q_agent(), False, between=between)
    assert Tape.captured == 4


def test_parameters_that_change_count_at_once():
    assert play(policy(), True, between=learn) == play(policy(), False, between=learn)


def test_parameters_may_not_move():
    with pytest.raises(AssertionError, match="moved to other memory"):
        play(policy(), True, between=replace)


def test_an_agent_that_does_more_is_called_at_every_step():
    agent = Counting(policy().model)
    play(agent, True)
    assert agent.acted == 6 * 5 * 2 and Tape.captured == 0


def test_what_cannot_be_captured_is_called_and_said_once(monkeypatch):
    monkeypatch.setattr(hardware, "_said", set())
    tries = []

    def refuse(step):
        tries.append(1)
        raise RuntimeError("operation not permitted when stream is capturing")

    with pytest.warns(UserWarning, match="not captured as a CUDA graph") as said:
        assert play(policy(), True, capture=refuse) == play(policy(), False)
    assert len(tries) == sum("CUDA graph" in str(x.message) for x in said) == 1


@pytest.mark.gpu
@pytest.mark.parametrize("make", [policy, q_agent, dueling_agent, c51_agent])
def test_on_a_gpu(make):
    def on_gpu():
        agent = make()
        agent.model.cuda()
        return agent

    want = play(on_gpu(), False, device="cuda", between=learn)
    assert play(on_gpu(), True, device="cuda", between=learn) == want
