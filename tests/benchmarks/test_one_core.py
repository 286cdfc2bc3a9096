"""The one-core reference speeds, as in figure 2 of Stooke & Abbeel: one process on a core, and one process on each
hyperthread of the core."""

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from accel_rl.cli.main import main as accel_rl
from accel_rl.machine import hardware
from accel_rl.machine.hardware import allowed_cores
from benchmarks import sampler
from benchmarks.harness.turns import in_turns
from experiments.sampling import figure


@pytest.mark.parametrize(
    ("text", "core", "found"), [("3", 3, (3,)), ("0,40\n", 0, (0, 40)), ("2-3", 3, (3, 2)), ("0,40", 40, (40, 0))]
)
def test_hyperthreads_of_a_core(tmp_path: Path, monkeypatch, text: str, core: int, found: tuple[int, ...]) -> None:
    folder = tmp_path / f"cpu{core}" / "topology"
    folder.mkdir(parents=True)
    (folder / "thread_siblings_list").write_text(text)
    of_core = hardware.hyperthreads(core, tmp_path)
    monkeypatch.setattr(hardware, "hyperthreads", lambda core: of_core)
    monkeypatch.setattr(hardware, "usable_cores", lambda: [core])
    assert sampler.first_core() == found


def test_a_system_that_does_not_say(tmp_path: Path) -> None:
    assert hardware.hyperthreads(7, tmp_path) == (7,)


@pytest.mark.slow
def test_one_process_and_one_on_each_thread_take_turns(monkeypatch) -> None:
    """Two logical processors of this machine replace the two hyperthreads of one core."""
    threads = tuple(allowed_cores()[:2])
    monkeypatch.setattr(sampler, "first_core", lambda: threads)
    with ExitStack() as stack:
        case = sampler.one_core(sampler.Options(game=("pong",)), stack)
        found = in_turns(case.variants, 0.1, 2)
    assert list(found) == ["process", "hyperthreads"][: len(threads)]
    assert all(len(v) == 2 and min(v) > 0 for v in found.values())


def test_the_figure_draws_both_lines(tmp_path: Path, monkeypatch) -> None:
    import matplotlib.axes

    drawn = {}
    monkeypatch.setattr(
        matplotlib.axes.Axes, "axhline", lambda self, y, **k: drawn.update({k["linestyle"]: (y, k["label"])})
    )
    case = {"game": "breakout", "actions": "A3C-Net", "workers": 1, "cores": 1}
    case["samplers"] = {"sampling": {"B": 4, "groups": 2, "T": 20, "reset": "immediate"}}
    case["median"] = {"sampling": 5.0, "environment_only": 9.0}
    core = {"game": "breakout", "median": {"process": 10.0, "hyperthreads": 13.0}}
    figure([case, core], tmp_path / "with.png")
    assert {style: y for style, (y, _) in drawn.items()} == {"--": 10.0, ":": 13.0}
    assert "hyperthread" in drawn[":"][1]
    drawn.clear()
    figure([case], tmp_path / "without.png")
    assert {style: y for style, (y, _) in drawn.items()} == {"--": 9.0}


@pytest.mark.slow
def test_a_trained_policy_acts(tmp_path: Path, capsys) -> None:
    """--policy accepts a run with the benchmark's network, and refuses a run with another network in one line."""
    for name in ("a2c", "dqn"):
        words = ["train", name, "--game", "pong", "--env-steps", "64", "--evaluation.interval", "0", "--envs", "4"]
        words += ["--replay.size", "1000", "--replay.start", "500"] if name == "dqn" else []
        assert accel_rl([*words, "--decorrelation-steps", "0", "--run-dir", str(tmp_path / name)]) == 0
    short = ["--game", "pong", "--envs-per-worker", "2", "--seconds", "0.1", "--repeats", "1", "--one-core"]
    short += ["--decorrelation-steps", "0", "--json", str(tmp_path / "out.json")]
    assert sampler.main([*short, "--policy", str(tmp_path / "a2c")]) == 0
    assert "process" in json.loads((tmp_path / "out.json").read_text())["results"][-1]["median"]
    capsys.readouterr()
    assert sampler.main([*short, "--policy", str(tmp_path / "dqn")]) == 2
    assert "the network has it as" in capsys.readouterr().err
