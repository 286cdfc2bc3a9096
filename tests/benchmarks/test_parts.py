"""Results that the benchmarks compute from measurements."""

import numpy as np
import pytest
import torch

from accel_rl.data.rollout import Rollout
from accel_rl.data.rollout_arrays import RolloutArrays, rollout_layout
from accel_rl.data.spec import EnvSpec
from benchmarks.agents import NETS, make_agent
from benchmarks.breakdown import PARTS, CpuTime, breakdown
from benchmarks.interleave import Bar, interleave, ratio
from benchmarks.soak import whole_or_marked

PICTURES = EnvSpec("pictures", (104, 80), "uint8", n_actions=6, stack=4)


def test_parts_take_turns(capsys) -> None:
    order: list[str] = []
    parts = {name: lambda name=name: order.append(name) or float(len(order)) for name in "ab"}
    assert interleave(parts, 3, Bar(6), "x: ") == {"a": [1, 3, 5], "b": [2, 4, 6]}
    assert order == list("ababab") and len(capsys.readouterr().err.splitlines()) == 6


def test_ratio() -> None:
    r = ratio([10.0, 30.0, 20.0], [10.0, 10.0, 20.0])
    assert r == {"of_medians": 2.0, "median_by_turn": 1.0, "least": 1.0, "most": 3.0}


def test_the_parts_of_a_step_add_up() -> None:
    cpu = CpuTime(workers_user=1.2, workers_kernel=0.01, server_user=0.3, server_kernel=0.02)
    b = breakdown(
        cores=2, rate=2000.0, steps=2000, cpu=cpu, emulation_us=550.0, ale_act_us=500.0, inference_us=100.0, copy_us=5.0
    )
    assert b["total"] == 1000.0 == pytest.approx(sum(b[part] for part in PARTS))
    assert b["worker"] == pytest.approx(50) and b["wake-ups"] == pytest.approx(15)
    assert b["server"] == pytest.approx(45) and b["idle"] == pytest.approx(1000 - 765)
    assert b["overhead"] == pytest.approx(350) and b["overhead_busy"] == pytest.approx(350 - b["idle"])


@pytest.mark.parametrize("net", NETS)
def test_agents_choose_among_the_actions(net: str) -> None:
    agent = make_agent(net, PICTURES)
    obs = torch.randint(256, (64, 4, 104, 80), dtype=torch.uint8)
    action, recorded = agent.act(obs, torch.linspace(0, 1 - 1e-6, 64))
    assert action.shape == (64,) and action.dtype == torch.int64 and 0 <= action.min() <= action.max() < 6
    assert all(v.shape == (64,) for v in recorded.values())
    if net == "none":
        assert set(action.tolist()) == set(range(6))
    same = make_agent(net, PICTURES).act(obs, torch.linspace(0, 1 - 1e-6, 64))[0]
    assert torch.equal(same, action)


def test_whole_or_marked() -> None:
    def rollout() -> Rollout:
        layout = rollout_layout(PICTURES, 3, 2)
        r = Rollout.over(RolloutArrays.of({k: np.zeros(s, d) for k, (d, s) in layout.items()}, 4))
        r.valid[:] = True
        return r

    assert whole_or_marked(rollout()) is None
    lost = rollout()
    lost.valid[:, 1] = False
    assert whole_or_marked(lost) is None
    lost.ended[2, 1] = True
    assert "an end in a part" in str(whole_or_marked(lost))
    torn = rollout()
    torn.valid[1:, 0] = False
    assert "neither whole nor marked" in str(whole_or_marked(torn))
    torn.ended[0, 0] = True  # it waits for the pause
    assert whole_or_marked(torn) is None
    for name, value in (("reward", float("nan")), ("action", -1)):
        broken = rollout()
        getattr(broken, name)[1, 0] = value
        assert "that is none" in str(whole_or_marked(broken))
