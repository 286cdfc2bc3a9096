"""Inference by CUDA graphs gives the same rollouts as calls of the agent at every step (real GPUs: `pytest -m gpu`)."""

import pytest
import torch

from accel_rl.agents.epsilon_greedy import LastStepAgent
from accel_rl.agents.policy import RecurrentPolicyAgent
from accel_rl.models.q_network import CategoricalQNetwork, QNetwork, QuantileNetwork
from accel_rl.models.recurrent import RecurrentActorCritic
from accel_rl.models.sequence_q_network import SequenceQNetwork
from accel_rl.speed.cuda_graph import CudaGraphs
from accel_rl.text import notes, output
from tests.marks import slow
from tests.samplers.conftest import digest_of, make_agent, make_noisy_agent, make_sampler
from tests.speed.test_captured_inference import ENV, SPEC, Counting, anneal, apart, learn, q_agent, replace


def play(make, captured, n=6, between=lambda agent, i: None, groups=2, device="sim:0", workers=0):
    """Collect n rollouts. Returns (SHA-256 digest of the rollouts, number of captured graphs, messages)."""
    from tests.simulated_device import in_parts

    agent, notes = make(), []
    agent.model.to(device)
    sampler = make_sampler(ENV, 8, groups, workers, device=device, capture=captured)
    in_parts(*(x for r in sampler.server.rollouts for x in (r.frames, r.age)))
    try:

        def rollouts():
            for i in range(n):
                between(agent, i)
                yield on_host(sampler.collect(agent))

        with output.written(notes.append, notes.append):
            return digest_of(rollouts()), len(sampler.server._inference._captures), notes
    finally:
        sampler.close()


def on_host(rollout):
    return type(rollout).from_state(rollout.state_dict())


def c51_agent():
    torch.manual_seed(0)
    agent = q_agent()
    agent.model = CategoricalQNetwork(SPEC, "a3c", 11, -10, 10)
    return agent


def quantile_agent():
    torch.manual_seed(0)
    agent = q_agent()
    agent.model = QuantileNetwork(SPEC, "a3c", atoms=11)
    return agent


def agent_of(network):
    torch.manual_seed(0)
    agent = q_agent()
    agent.model = QNetwork(SPEC, network)
    return agent


def data_efficient_agent():
    return agent_of("data-efficient")


def padded_agent():
    return agent_of("nature-same")


def hadamax_agent():
    return agent_of("hadamax")


def btr_agent():
    return agent_of("btr")


def dueling_agent():
    return q_agent(is_dueling=True)


def policy():
    return make_agent(ENV)


def noisy_agent():
    return make_noisy_agent(ENV)


def last_step_agent():
    torch.manual_seed(0)
    return LastStepAgent(SequenceQNetwork(SPEC, "a3c", 16, is_dueling=True), 0.2)


def recurrent_agent():
    torch.manual_seed(0)
    return RecurrentPolicyAgent(RecurrentActorCritic(SPEC, 16))


OF_VALUES = [q_agent, dueling_agent, c51_agent, quantile_agent, data_efficient_agent, last_step_agent]
AGENTS = [policy, noisy_agent, recurrent_agent, *OF_VALUES, padded_agent, hadamax_agent, btr_agent]
# The fast tests omit the agents of Q-learning, which test_an_epsilon_that_changes and tests/gpu test.
QUICK = [(policy, 1), (recurrent_agent, 2)]
CASES = [(make, groups) for make in AGENTS for groups in (1, 2)]


@pytest.mark.parametrize(("make", "groups"), [case if case in QUICK else slow(*case) for case in CASES])
def test_the_same_as_called(simulated_gpu, make, groups):
    want, _, notes = play(make, False, groups=groups)
    assert notes == ["inference is not captured, Python runs at every step: --sampler.no-capture"]
    assert play(make, True, groups=groups) == (want, groups, [])  # one graph per group


@pytest.mark.slow
def test_worker_processes_whose_frames_are_copied_while_another_group_acts(simulated_gpu):
    assert play(policy, True, workers=2)[0] == play(policy, True)[0]


@pytest.mark.parametrize("between", [slow(anneal), apart])
def test_an_epsilon_that_changes(simulated_gpu, between):
    found = play(q_agent, True, between=between)
    assert found[0] == play(q_agent, False, between=between)[0] and found[1] == 2


def test_parameters_that_change_count_at_once(simulated_gpu):
    assert play(policy, True, between=learn)[0] == play(policy, False, between=learn)[0]


def test_parameters_may_not_move(simulated_gpu):
    with pytest.raises(AssertionError, match="moved to other memory"):
        play(policy, True, between=replace)


def test_an_agent_that_does_more_is_called_at_every_step(simulated_gpu):
    agent = Counting(policy().model)
    _, captured, notes = play(lambda: agent, True)
    assert agent.acted == 6 * 5 * 2 and not captured and "Counting is not registered" in notes[0]


def test_what_cannot_be_captured_is_called_and_said_once(simulated_gpu, monkeypatch):
    monkeypatch.setattr(notes, "_said", set())

    def asks(agent, i):
        model = agent.model
        assert type(model).__name__ == "ActorCritic"
        model.body.convolutions[0].of_bytes = Asking()

    with pytest.warns(UserWarning, match="not captured as a CUDA graph") as said:
        found = play(policy, True, between=asks)
    assert found[:2] == (play(policy, False)[0], 0)
    assert sum("CUDA graph" in str(x.message) for x in said) == len(found[2]) == 1


class Asking:
    """An object whose conversion to bool makes the host wait for the GPU."""

    def __bool__(self):
        return bool(torch.ones((), device="sim:0"))


def test_one_wait_for_each_served_group_and_none_for_a_rollout(simulated_gpu):
    agent = policy()
    agent.model.to("sim:0")
    sampler = make_sampler(ENV, 8, 2, 2, device="sim:0")
    in_parts = simulated_gpu.in_parts
    in_parts(*(x for r in sampler.server.rollouts for x in (r.frames, r.age)))
    for _ in range(4):
        sampler.collect(agent)
    with simulated_gpu.counting() as waits:
        for _ in range(3):
            sampler.collect(agent)
    sampler.close()
    assert sum(waits.values()) == 3 * 5 * 2, waits


def test_a_graph_keeps_what_it_reads_and_has_no_effect_when_captured(simulated_gpu):
    graphs, out = CudaGraphs(torch.device("sim:0")), torch.zeros(3, device="sim:0")

    def captured():
        local = torch.arange(3, device="sim:0")  # `local` must stay alive as long as the graph.
        return graphs.capture(lambda: out.add_(local))

    replay = captured()
    assert out.tolist() == [0, 0, 0]
    replay()
    replay()
    assert out.tolist() == [0, 2, 4]


@pytest.mark.gpu
@pytest.mark.parametrize("make", AGENTS)
def test_on_a_gpu(make):
    want, _, _ = play(make, False, device="cuda:0", between=learn)
    assert play(make, True, device="cuda:0", between=learn)[:2] == (want, 2)
