"""The benchmark programs: bad arguments give one line and exit code 2; short runs end and print their results."""

import json
import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks import (
    concurrent,
    cuda_emulator,
    emulator,
    emulator_trace,
    parameter_server,
    peers,
    replay,
    sampler,
    scaling,
    soak,
    train,
)

MAINS = {
    "concurrent": concurrent.main,
    "cuda_emulator": cuda_emulator.main,
    "emulator": emulator.main,
    "emulator_trace": emulator_trace.main,
    "parameter_server": parameter_server.main,
    "peers": peers.main,
    "replay": replay.main,
    "sampler": sampler.main,
    "scaling": scaling.main,
    "soak": soak.main,
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
        ("peers", ["--json", "/nonexistent/x.json"], ["/nonexistent"]),
        ("sampler", ["--game", "pong", "pongg"], ["pongg", "pong"]),
        ("sampler", ["--reset", "swop"], ["swop", "swap"]),
        ("sampler", ["--envs-per-worker", "4", "0"], ["at least 1"]),
        ("sampler", ["--groups", "3", "--envs-per-worker", "4"], ["must divide", "3 groups"]),
        ("sampler", ["--frame", "84x85"], ["84x85", "84x84"]),
        ("sampler", ["--device", "cuda:9"], ["cuda:9"]),
        ("sampler", ["--plot", "/nonexistent/x.png"], ["/nonexistent"]),
        ("replay", ["--peers", "SB2"], ["SB2", "nearest: SB3"]),
        ("replay", ["--capacity", "100"], ["--capacity 100", "at least 1024"]),
        ("replay", ["--batch", "0"], ["at least 1"]),
        ("train", ["--algorithms", "dqm"], ["dqm", "nearest: dqn"]),
        ("train", ["--cleanrl", "/nonexistent.py"], ["/nonexistent.py", "no such file"]),
        ("concurrent", ["--samplers", "0"], ["--samplers [0]", "at least 1"]),
        ("concurrent", ["--samplers", "8", "--period", "100"], ["target-interval 100", "use 96"]),
        ("concurrent", ["--network", "natur"], ["natur", "nature"]),
        ("scaling", ["--tables", "4"], ["--tables 4", "1, 2, 3"]),
        ("scaling", ["--ranks", "0"], ["at least 1"]),
        ("scaling", ["--ranks", "3"], ["powers of 2"]),
        ("scaling", ["--only", "A4C"], ["--only A4C", "A3C"]),
        ("scaling", ["--patience", "0"], ["--patience 0"]),
        ("scaling", ["--tables", "1", "--simulators", "3"], ["--simulators 3", "2 ranks"]),
        ("parameter_server", ["--shards", "0"], ["--shards 0", "1 to"]),
        ("parameter_server", ["--transports", "rays"], ["rays", "in-process"]),
        ("parameter_server", ["--seconds", "0"], ["--seconds 0", "above 0"]),
        ("cuda_emulator", ["--games", "pongg"], ["pongg", "nearest: pong"]),
        ("cuda_emulator", ["--loads", "trainin"], ["trainin", "nearest: training"]),
        ("cuda_emulator", ["--engines", "gpu"], ["gpu", "device, workers"]),
        ("cuda_emulator", ["--envs", "0"], ["--envs 0", "at least 1"]),
        ("cuda_emulator", ["--device", "cuda:9"], ["cuda:9"]),
        ("emulator", ["--games", "pongg"], ["pongg", "nearest: pong"]),
        ("emulator", ["--machines", "vectr"], ["vectr", "nearest: vector"]),
        ("emulator_trace", ["--games", "pong,breakot"], ["breakot", "nearest: breakout"]),
        ("emulator_trace", ["--sticky", "1.5"], ["--sticky 1.5", "0 to 1"]),
        ("emulator_trace", ["--policy", "rndom"], ["rndom", "random"]),
        ("soak", ["--net", "resnet"], ["resnet", "dqn"]),
        ("soak", ["--minutes", "0"], ["--minutes 0", "above 0"]),
        ("soak", ["--minuts", "1"], ["--minuts", "--minutes"]),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else x,
)
def test_one_line_and_exit_code_2(program: str, argv: list[str], parts: list[str], capsys) -> None:
    assert MAINS[program](argv) == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1, err
    assert err.startswith(f"benchmarks.{program}: ")
    for part in parts:
        assert part in err


def test_a_peer_that_is_not_installed_is_named_once(capsys, monkeypatch) -> None:
    monkeypatch.setattr(peers.importlib.util, "find_spec", lambda name: None if name == "envpool" else object())
    there, missing = peers.installed(peers.Options())
    assert [p.name for p in there] == [n for n in peers.ALL if not n.startswith("EnvPool")]
    assert missing == dict.fromkeys(("EnvPool", "EnvPool async"), "pip install envpool")
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "left out: EnvPool, EnvPool async, not installed (pip install envpool)"


@pytest.mark.slow
def test_concurrent_runs(tmp_path: Path, capsys) -> None:
    file, allowed = tmp_path / "out.json", os.sched_getaffinity(0)
    short = ("--network", "a3c", "--samplers", "1", "2", "--period", "40", "--seconds", "0.05", "--repeats", "1")
    assert concurrent.main([*short, "--json", str(file)]) == 0
    results = json.loads(file.read_text())["results"]
    names = ["1 standard", "1 concurrent", "2 standard", "2 concurrent", "2 synchronized", "2 both"]
    assert [r["name"] for r in results] == names
    assert all(r["median"]["training"] > 0 and min(r["stages_us"].values()) > 0 for r in results)
    assert len(capsys.readouterr().out.splitlines()) == 8 and os.sched_getaffinity(0) == allowed
    assert len(concurrent.variants((1, 2, 4, 8))) == len(concurrent.PAPER_HOURS) == 14


def test_emulator_and_its_trace_run(tmp_path: Path, capsys) -> None:
    file = tmp_path / "out.json"
    short = ("--games", "pong,boxing", "--frames", "60", "--seeds", "1", "--jobs", "1", "--json", str(file))
    assert emulator_trace.main([*short, "--table", str(tmp_path / "table.md")]) == 0
    assert "2 of 2 games exact in everything" in capsys.readouterr().out
    assert all(row["exact"] and row["frames"] >= 59 for row in json.loads(file.read_text())["games"].values())
    assert "| boxing | 1 |" in (tmp_path / "table.md").read_text()
    assert emulator.main(["--games", "pong", "--machines", "fast", "--rounds", "1", "--steps", "4"]) == 0
    assert "x vector; least: pong" in capsys.readouterr().out


def test_cuda_emulator_runs(tmp_path: Path, capsys) -> None:
    """The host build beside worker processes, in all loads; then by step."""
    file = tmp_path / "out.json"
    short = ("--device", "cpu", "--envs", "4", "--seconds", "0.05", "--rounds", "1", "--horizon", "2")
    loads = ("--loads", "emulation", "inference", "training")
    assert cuda_emulator.main(["--games", "pong", *short, *loads, "--json", str(file)]) == 0
    rows = json.loads(file.read_text())["rates"]
    assert {(r["load"], r["engine"]) for r in rows} == {
        (load, engine) for load in ("emulation", "inference", "a2c") for engine in ("device", "workers")
    }
    assert all(r["frames_per_s"][0] > 0 for r in rows) and "emulation   device" in capsys.readouterr().out
    assert cuda_emulator.main(["--games", "pong", *short, "--by-step", "40"]) == 0
    assert capsys.readouterr().out.splitlines()[2].split()[-1] == "1.00"  # all began alike


SHORT = ("--envs-per-worker", "2", "--workers", "1", "--horizon", "2")


def test_replay_runs(tmp_path: Path, capsys) -> None:
    """With all installed peers; our replay is within its bound on bytes."""
    file = tmp_path / "out.json"
    short = ("--capacity", "2000", "--seconds", "0.01", "--repeats", "1", "--batch", "8", "--train")
    assert replay.main([*short, "--json", str(file), "--threads", "1"]) == 0
    out = json.loads(file.read_text())
    assert {r["kind"] for r in out["results"]} == {"uniform", "prioritized"}
    for r in out["results"]:
        assert r["sample 8"]["accel_rl"][0] > 0 and r["append"]["accel_rl"][0] > 0
    assert len(out["train"]) == 2  # pictures and vectors
    assert "the bound on bytes is 7,213" in capsys.readouterr().out


@pytest.mark.parametrize(
    "transport",
    [
        "in-process",
        pytest.param(
            "sockets",
            marks=[
                pytest.mark.slow,
                pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed (extra cluster)"),
            ],
        ),
    ],
)
def test_parameter_server_runs(transport, tmp_path: Path, capsys) -> None:
    file = tmp_path / "out.json"
    argv = [
        "--parameters",
        "1000",
        "--shards",
        "1",
        "3",
        "--transports",
        transport,
        "--repeats",
        "2",
        "--learners",
        "2",
    ]
    assert parameter_server.main([*argv, "--seconds", "0.05", "--json", str(file)]) == 0
    result = json.loads(file.read_text())
    assert len(result["median"]) == (10 if transport == "in-process" else 12) and min(result["median"].values()) > 0
    assert {len(x) for x in result["calls_per_s"].values()} == {2} and result["megabytes"] == pytest.approx(0.004)
    assert f"| {transport} | 3 |" in capsys.readouterr().out


@pytest.mark.slow
def test_scaling_runs(tmp_path: Path, capsys) -> None:
    file = tmp_path / "out.json"
    short = ("--ranks", "1", "2", "--seconds", "5", "--repeats", "1", "--simulators", "16")
    assert scaling.main(["--tables", "1", "2", *short, "--json", str(file)]) == 0
    results = json.loads(file.read_text())["results"]
    assert set(results) == {
        "1/16/sync",
        "1/16/async",
        "2/A2C/1",
        "2/A2C/2",
        "2/A3C/2",
        "2/PPO/1",
        "2/PPO/2",
        "2/APPO/2",
    }
    assert all(m[0]["steps_per_s"] > 0 for m in results.values())
    assert results["2/A2C/2"][0]["sync_s"] > 0 and results["2/A3C/2"][0]["sync_s"] > 0
    out = capsys.readouterr().out
    assert "| # SIMS (PER CORE) | SYNC | ASYNC |" in out and "| A3C | – |" in out


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_scaling_of_learning_from_a_replay_runs(tmp_path: Path, capsys) -> None:
    short = ("--ranks", "1", "2", "--seconds", "1", "--repeats", "1", "--fill", "600")
    assert scaling.main(["--tables", "3", *short, "--only", "DQN-512", "DQN-512 *"]) == 0
    out = capsys.readouterr().out
    assert "past a replay's start of 600 steps" in out and "| CAT-DQN-2048 | – | – |" in out and "did not" not in out


def test_scaling_goes_on_past_a_case_that_does_not_end(tmp_path: Path, capsys) -> None:
    """A run has a tenth of a second; the table is printed nevertheless, and no process is left."""
    file = tmp_path / "out.json"
    short = ("--tables", "2", "--ranks", "2", "--repeats", "1", "--patience", "0.1", "--only", "A2C", "A3C")
    assert scaling.main([*short, "--json", str(file)]) == 1
    out, err = capsys.readouterr()
    assert "| A2C | did not end |" in out and "| A3C | did not end |" in out and "| PPO | – |" in out
    assert err.count("took more than 0.1 s") == 2
    assert list(json.loads(file.read_text())["results"]) == ["2/A2C/2", "2/A3C/2"]


@pytest.mark.slow
def test_sampler_runs(tmp_path: Path, capsys) -> None:
    file, plot = tmp_path / "out.json", tmp_path / "out.png"
    short = (*SHORT, "3", "--decorrelation-steps", "0", "--seconds", "0.1", "--repeats", "2")
    assert (
        sampler.main(["--game", "pong", *short, "--nets", "none", "dqn", "--json", str(file), "--plot", str(plot)]) == 0
    )
    found = json.loads(file.read_text())
    results = found["results"]
    assert [(r["horizon"], r["net"]) for r in results] == [(2, "none"), (2, "dqn"), (3, "none"), (3, "dqn")]
    assert [turns["net"] for turns in found["in_turns"]] == ["none", "dqn"]
    for turns in found["in_turns"]:
        assert {name: len(rates) for name, rates in turns["measurements"].items()} == {"horizon 2": 2, "horizon 3": 2}
        assert max(q["of_medians"] for q in turns["to_the_fastest"].values()) == 1
    for r in results:
        assert {len(v) for v in r["measurements"].values()} == {2}
        assert ("inference_only" in r["measurements"]) == (r["net"] == "dqn")
    assert plot.stat().st_size > 10_000 and "DQN-Net" in capsys.readouterr().out


@pytest.mark.slow
def test_peers_runs(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    few = ("--peers", "AtariVectorEnv", "AtariVectorEnv send/recv", "Gymnasium AsyncVectorEnv", "--process-envs", "2")
    assert peers.main(["--games", "pong", *SHORT, *few, "--seconds", "0.1", "--repeats", "2", "--json", str(file)]) == 0
    game = json.loads(file.read_text())["games"]["pong"]
    assert list(game["medians"]) == ["none", "a3c"] and len(game["medians"]["a3c"]) == 4 and not game["failed"]
    assert {tuple(s["picture"]) for s in game["sizes"].values()} == {(104, 80)}
    assert game["ours_over"]["none"]["AtariVectorEnv"]["of_medians"] > 0


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_soak_finds_nothing(tmp_path: Path, capsys) -> None:
    assert soak.main(["--envs-per-worker", "4", "--minutes", "1", "--kill-every", "6", "--hang", "4"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "nothing is wrong"
