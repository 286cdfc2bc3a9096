"""The benchmark programs: bad arguments give one line and exit code 2; short runs end and print their results."""

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import cuda_emulator, emulator, kernels, peers, replay, sampler, train
from benchmarks.harness.peer_envs import GymnasiumAsync, Peer, SB3Subproc, Shape
from tests.emulator import trace

MAINS = {
    "cuda_emulator": cuda_emulator.main,
    "emulator": emulator.main,
    "trace": trace.main,
    "kernels": kernels.main,
    "peers": peers.main,
    "replay": replay.main,
    "sampler": sampler.main,
    "train": train.main,
}


@pytest.mark.parametrize(
    ("program", "argv", "parts"),
    [
        ("peers", ["--games", "pongg"], ["pongg", "pong"]),
        ("peers", ["--peers", "EnvPol"], ["EnvPol", "nearest: EnvPool"]),
        ("peers", ["--nets", "a3d"], ["a3d", "a3c"]),
        ("peers", ["--repeats", "0"], ["--repeats 0", "at least 1"]),
        ("peers", ["--seconds", "-1"], ["--seconds -1", "above 0"]),
        ("peers", ["--json", "missing/x.json"], ["missing"]),
        ("peers", ["--json", "."], ["--json .", "must be a file"]),
        ("peers", ["--seconds", "inf"], ["--seconds inf", "at most 1e+15"]),
        ("peers", ["--process-envs", "1000000"], ["--process-envs 1000000", "GiB are needed"]),
        ("sampler", ["--game", "pong", "pongg"], ["pongg", "pong"]),
        ("sampler", ["--reset", "swop"], ["swop", "swap"]),
        ("sampler", ["--envs-per-worker", "4", "0"], ["at least 1"]),
        ("sampler", ["--groups", "3", "--envs-per-worker", "4"], ["must divide", "3 groups"]),
        ("sampler", ["--frame", "84x85"], ["84x85", "84x84"]),
        ("sampler", ["--device", "cuda:9"], ["cuda:9"]),
        ("replay", ["--peers", "SB2"], ["SB2", "nearest: SB3"]),
        ("replay", ["--capacity", "100"], ["--capacity 100", "at least 1024"]),
        ("replay", ["--batch", "0"], ["at least 1"]),
        ("train", ["--algorithms", "dqm"], ["dqm", "nearest: dqn"]),
        ("train", ["--cleanrl", "missing.py"], ["missing.py", "no such file"]),
        ("train", ["--game", "pongg"], ["pongg", "pong"]),
        ("train", ["--backend", "atari"], ["atari", "auto"]),
        ("kernels", ["--game", "pongg"], ["pongg", "pong"]),
        ("cuda_emulator", ["--games", "pongg"], ["pongg", "nearest: pong"]),
        ("cuda_emulator", ["--loads", "trainin"], ["trainin", "nearest: training"]),
        ("cuda_emulator", ["--engines", "gpu"], ["gpu", "device, workers"]),
        ("cuda_emulator", ["--envs", "0"], ["--envs 0", "at least 1"]),
        ("cuda_emulator", ["--device", "cuda:9"], ["cuda:9"]),
        ("emulator", ["--games", "pongg"], ["pongg", "nearest: pong"]),
        ("emulator", ["--machines", "vectr"], ["vectr", "nearest: vector"]),
        ("trace", ["--games", "pong", "breakot"], ["breakot", "nearest: breakout"]),
        ("emulator", ["--games", "pong", "breakot"], ["breakot", "nearest: breakout"]),
        ("emulator", ["--games", "pong,breakout"], ["pong,breakout", "names with spaces between them"]),
        ("cuda_emulator", ["--games", "pong", "all57"], ["all57", "names with spaces between them"]),
        ("trace", ["--sticky", "1.5"], ["--sticky 1.5", "0 to 1"]),
        ("trace", ["--policy", "rndom"], ["rndom", "random"]),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else x,
)
def test_one_line_and_exit_code_2(
    program: str, argv: list[str], parts: list[str], capsys, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("subprocess.Popen", lambda *a, **k: pytest.fail("a process was started"))
    assert MAINS[program](argv) == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1, err
    assert err.partition(": ")[0].endswith(f".{program}")
    for part in parts:
        assert part in err


def test_a_peer_that_is_not_installed_is_named_once(capsys, monkeypatch) -> None:
    monkeypatch.setattr(peers.importlib.util, "find_spec", lambda name: None if name == "envpool" else object())
    assert [p.name for p in peers.installed(peers.Options())] == [n for n in peers.ALL if not n.startswith("EnvPool")]
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "left out: EnvPool, EnvPool async, not installed (pip install envpool)"


@pytest.mark.slow
def test_emulator_and_its_trace_run(tmp_path: Path, capsys) -> None:
    file = tmp_path / "out.json"
    short = ("--games", "pong", "boxing", "--frames", "60", "--seeds", "1", "--jobs", "1", "--json", str(file))
    assert trace.main([*short, "--table", str(tmp_path / "table.md")]) == 0
    assert "2 of 2 games exact in everything" in capsys.readouterr().out
    assert all(row["exact"] and row["frames"] >= 59 for row in json.loads(file.read_text())["games"].values())
    assert "| boxing | 1 |" in (tmp_path / "table.md").read_text()
    assert emulator.main(["--games", "pong", "--machines", "fast", "--tiny"]) == 0
    assert "x vector; least: pong" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("loads", [("emulation",), ("emulation", "inference", "training")])
def test_cuda_emulator_runs(tmp_path: Path, capsys, loads: tuple[str, ...]) -> None:
    """benchmarks.cuda_emulator measures the CPU build of the CUDA emulator, worker processes, and the time per step."""
    file = tmp_path / "out.json"
    short = ("--device", "cpu", "--tiny")
    assert cuda_emulator.main(["--games", "pong", *short, "--loads", *loads, "--json", str(file)]) == 0
    (found,) = json.loads(file.read_text())["results"]
    names = [load.replace("training", "a2c") for load in loads]
    expected = [f"{name}, {engine}" for name in names for engine in ("device", "workers")]
    assert list(found["median"]) == expected and min(found["median"].values()) > 0
    assert "| pong | 4 | emulation, device |" in capsys.readouterr().out
    assert cuda_emulator.main(["--games", "pong", *short, "--by-step", "40"]) == 0
    assert capsys.readouterr().out.splitlines()[-2].endswith("| 1.00 |")  # all began alike


@pytest.mark.slow
def test_steps_of_the_plain_core_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    config, make = cuda_emulator.Load("qbert", 256).config("cpu"), cuda_emulator.make_device_game
    assert cuda_emulator.plain_steps(config, "cpu") == 0

    def without_continued_starts(*arguments: Any) -> Any:
        game = make(*arguments)
        game.tables["continued"] = torch.empty(0, dtype=torch.uint8)
        return game

    monkeypatch.setattr(cuda_emulator, "make_device_game", without_continued_starts)
    assert 0 < cuda_emulator.plain_steps(config, "cpu") <= 256


SHORT = ("--envs-per-worker", "2", "--workers", "1", "--horizon", "2")


def test_replay_runs(tmp_path: Path, capsys) -> None:
    """The replay benchmark measures our replay, and those of all other libraries that are installed.

    Our replay takes less than 7,213 bytes per transition.
    """
    file = tmp_path / "out.json"
    assert replay.main(["--tiny", "--json", str(file), "--threads", "1"]) == 0
    results = json.loads(file.read_text())["results"]
    work = [(r["kind"], r["work"]) for r in results]
    assert work == [(kind, work) for kind in replay.KINDS for work in ("append", "sample 8")]
    assert all(r["median"]["accel_rl"] > 0 and r["columns"]["bytes"]["accel_rl"] < 7_213 for r in results)
    assert "the bound on bytes of a transition is 7,213" in capsys.readouterr().out


@pytest.mark.slow
def test_sampler_runs(tmp_path: Path, capsys) -> None:
    file = tmp_path / "out.json"
    short = (*SHORT, "3", "--decorrelation-steps", "0", "--seconds", "0.1", "--repeats", "2")
    assert sampler.main(["--game", "pong", *short, "--nets", "none", "dqn", "--json", str(file)]) == 0
    random, acting = json.loads(file.read_text())["results"]
    assert (random["actions"], acting["actions"]) == ("random actions", "DQN-Net")
    parts = ["sampling, horizon 2", "sampling, horizon 3", "environment_only"]
    assert list(random["measurements"]) == parts and {len(v) for v in acting["measurements"].values()} == {2}
    assert {"inference_only, horizon 2", "bound, horizon 3"} <= set(acting["measurements"])
    columns, m = acting["columns"], acting["median"]
    for title in acting["samplers"]:
        assert columns["/ environment_only"][title] == m[title] / m["environment_only"]
        assert 0 < columns["workers busy"][title] < 1 and columns["MiB"][title] < columns["MiB, bound"][title]
    assert "DQN-Net" in capsys.readouterr().out


@pytest.mark.slow
def test_peers_runs(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    few = ("--peers", "AtariVectorEnv", "AtariVectorEnv send/recv", "Gymnasium AsyncVectorEnv", "--process-envs", "2")
    assert peers.main(["--games", "pong", *SHORT, *few, "--seconds", "0.1", "--repeats", "2", "--json", str(file)]) == 0
    random, acting = json.loads(file.read_text())["results"]
    assert len(acting["median"]) == 4 and not random["left_out"]
    assert set(acting["columns"]["environments"].values()) == {2}
    assert random["ratios"]["AtariVectorEnv"]["of_medians"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("make", [GymnasiumAsync, SB3Subproc], ids=lambda make: make.name)
def test_a_peer_is_closed_while_a_process_does_not_reply(make: type[Peer]) -> None:
    pytest.importorskip(make.package)
    peer = make(Shape("pong", 2, 2, 1))
    peer.env.step_async(peer._random[0])
    processes = peer.env.unwrapped.processes
    stopped = processes[0]
    os.kill(stopped.pid, signal.SIGSTOP)
    closing = threading.Thread(target=peer.close, daemon=True)
    closing.start()
    closing.join(20)
    is_closed = not closing.is_alive()
    if not is_closed:
        stopped.kill()
    assert is_closed and not any(process.is_alive() for process in processes)


@pytest.mark.slow
def test_train_runs(tmp_path: Path, capsys) -> None:
    file = tmp_path / "out.json"
    assert train.main(["--tiny", "--game", "pong", "--no-sb3", "--json", str(file)]) == 0
    (found,) = json.loads(file.read_text())["results"]
    m = found["median"]
    assert m["bound"] == pytest.approx(
        1 / (1 / m["environment_only"] + 1 / m["inference_only"] + found["uses"] / m["update_only"])
    )
    assert found["update"]["mflop_per_sample"] == pytest.approx(49.5, abs=0.1)
    assert "of a matrix product's" in capsys.readouterr().out


@pytest.mark.slow
def test_kernels_runs(tmp_path: Path, capsys) -> None:
    assert kernels.main(["--tiny", "--game", "pong"]) == 0
    assert "| family | a2c | acting-8 | best | at least 1.2 |" in capsys.readouterr().out
