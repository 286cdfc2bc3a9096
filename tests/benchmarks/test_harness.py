"""benchmarks/harness: alternating measurements of variants, and the options of the benchmark programs."""

import json
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import pytest
import torch

from accel_rl.data.spec import EnvSpec
from accel_rl.text.errors import RunError
from benchmarks.harness import program
from benchmarks.harness.agents import NETS, make_agent
from benchmarks.harness.program import Benchmark, Case
from benchmarks.harness.served import Served
from benchmarks.harness.turns import in_turns, ratio

PICTURES = EnvSpec("pictures", (104, 80), "uint8", n_actions=6, stack=4)


def test_variants_take_turns(capsys) -> None:
    order: list[str] = []
    variants = {name: lambda s, name=name: order.append(name) or s * len(order) for name in "ab"}
    assert in_turns(variants, 1.0, 3, label="x, ") == {"a": [1, 3, 5], "b": [2, 4, 6]}
    assert order == list("ababab") and len(capsys.readouterr().err.splitlines()) == 6
    # Each of the variants a and b is measured once, even if the time limit is 0.
    assert in_turns(variants, 1.0, 3, time_s=0.0) == {"a": [7], "b": [8]}


@dataclass(frozen=True)
class Options(program.Options):
    games: tuple[str, ...] = ("pong",)
    """Games."""
    size: int = 10
    """Size."""

    TINY: ClassVar[dict[str, Any]] = {"size": 1, "games": ("boxing",)}


def made_up(o: Options, game: str, stack: ExitStack) -> Case:
    if game == "freeway":
        raise RunError("freeway: its process ended")
    variants = {"all": lambda seconds: float(o.size), "half": lambda seconds: o.size / 2}
    return Case(
        {"game": game},
        variants,
        derive=lambda found: {"twice": [2 * x for x in found["all"]]},
        columns=lambda found: {"bytes": {"half": 7}},
        figures=lambda found: {"more": 1},
    )


MADE_UP = Benchmark("made_up", "A benchmark.", Options, lambda o: [partial(made_up, o, game) for game in o.games])


def test_a_benchmark_writes_medians_ratios_and_its_command(tmp_path, capsys) -> None:
    file = tmp_path / "out.json"
    assert MADE_UP.main(["--games", "pong", "breakout", "--repeats", "2", "--json", str(file)]) == 0
    found = json.loads(file.read_text())
    assert found["command"].startswith("python -m benchmarks.made_up --games pong breakout")
    assert found["machine"]["cores"] and found["options"]["size"] == 10 and not found["wrong"]
    pong, breakout = found["results"]
    assert (pong["game"], breakout["game"], pong["more"], pong["subject"]) == ("pong", "breakout", 1, "all")
    assert pong["measurements"] == {"all": [10, 10], "half": [5, 5], "twice": [20, 20]}
    assert pong["ratios"]["half"] == {"of_medians": 2, "median_by_turn": 2, "least": 2, "most": 2}
    out = capsys.readouterr().out
    assert "| game | variant | env steps/s | all / it | by turn | bytes |" in out
    assert "| breakout | half | 5.00 | 2.00 | 2.00 to 2.00 | 7 |" in out


def test_a_case_that_fails_leaves_the_others(capsys) -> None:
    assert MADE_UP.main(["--games", "freeway", "pong", "--repeats", "1"]) == 1
    out = capsys.readouterr().out
    assert "| pong | all | 10.0 |" in out and "wrong: freeway: its process ended" in out


def test_tiny_changes_what_was_not_given(capsys) -> None:
    assert MADE_UP.main(["--tiny", "--games", "pong"]) == 0
    assert "| pong | all | 1.00 |" in capsys.readouterr().out


def test_a_process_that_ends_is_one_line() -> None:
    with pytest.raises(RunError, match="the process of a peer ended: ValueError: 3"):
        Served("a peer", [sys.executable, "-c", "raise ValueError(3)"])


def test_ratio() -> None:
    r = ratio([10.0, 30.0, 20.0], [10.0, 10.0, 20.0])
    assert r == {"of_medians": 2.0, "median_by_turn": 1.0, "least": 1.0, "most": 3.0}


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
