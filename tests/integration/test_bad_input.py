"""Bad input to accel-rl gives one line on stderr and exit code 2, before a process is started."""

import json
import shutil
import subprocess

import pytest

from accel_rl.cli.main import main
from tests.integration.runs import checkpoint_bytes, run

PONG = ["train", "a2c", "--game", "pong"]
DQN = ["train", "dqn", "--game", "pong"]
GORILA = [*DQN, "--cluster", "gorila", "--replay.size", "60000"]


@pytest.fixture(autouse=True)
def no_process(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)


@pytest.mark.parametrize(
    ("argv", "parts"),
    [
        (["train", "a2c", "--game", "pongg"], ["pongg", "pong"]),
        (["train", "a2c", "--game", "space-invaders"], ["space-invaders", "space_invaders"]),
        (["train", "a2c"], ["--game pong"]),
        (["train", "a2c", "pong"], ["unexpected argument 'pong'", "--game pong"]),
        ([*PONG, "--seed", "1", "2"], ["unexpected argument '2'"]),
        (
            [*PONG, "--replay-size", "1000"],
            ["this algorithm has no such setting; dqn, c51, qrdqn, iqn, btr, rainbow, r2d2 have it"],
        ),
        ([*DQN, "--replay-size", "1000"], ["--replay-size; nearest: --replay.size"]),
        ([*PONG, "--run-dir", f"{__file__}/run"], ["test_bad_input.py is a file"]),
        (["train", "a2d", "--game", "pong"], ["a2d", "a2c"]),
        (["train", "a2c", "--env", "CartPol-v1"], ["CartPol-v1"]),
        (["train", "a2c", "--env", "CartPole-v1", "--game", "pong"], ["pong", "CartPole-v1"]),
        ([*PONG, "--envs", "30", "--workers", "8", "--groups", "2"], ["B=30", "2 groups x 8 workers", "use 32"]),
        ([*PONG, "--envs", "15", "--groups", "2"], ["B=15", "2 groups", "use 16"]),
        ([*PONG, "--budget", "1h", "--env-steps", "5"], ["--budget 1h and --env-steps 5", "one of the two"]),
        ([*PONG, "--budget", "an hour"], ["--budget: 'an hour'", "30s, 10m or 1.5h"]),
        ([*PONG, "--budget", "1h", "--minibatch", "5"], ["--minibatch", "no such setting"]),
        ([*GORILA, "--budget", "1h"], ["--budget 1h", "without --cluster"]),
        ([*PONG, "--budget", "1h", "--envs", "15", "--groups", "2"], ["B=15", "2 groups", "use 16"]),
        ([*PONG, "--horizon", "0"], ["horizon 0", "at least 1"]),
        ([*GORILA, "--shards", "0"], ["--gorila.shards 0", "at least 1"]),
        ([*GORILA, "--bundles", "0"], ["--gorila.bundles 0", "nothing samples"]),
        ([*GORILA, "--actors", "1"], ["--gorila.actors 1", "--gorila.replay global"]),
        ([*GORILA, "--bundles", "0", "--actors", "1", "--gorila.replay", "global"], ["nothing learns"]),
        ([*GORILA, "--min-bundles", "3"], ["--gorila.min-bundles 3", "at most 2"]),
        ([*GORILA, "--max-delay", "0"], ["--gorila.in-flight 1", "at most --gorila.max-delay 0"]),
        ([*GORILA, "--gorila.updates", "0"], ["--gorila.updates 0", "at least 1"]),
        ([*GORILA, "--bundle-cpus", "1.5"], ["--gorila.bundle-cpus 1.5", "whole number"]),
        ([*GORILA, "--bundle-cpus", "4000"], ["--gorila.bundle-cpus 4000", "at most"]),
        ([*GORILA, "--replay.size", "1e9"], ["--replay.size 1000000000", "2 bundles need", "at most"]),
        ([*GORILA, "--address", "nowhere"], ["--address nowhere", "HOST:PORT"]),
        ([*GORILA, "--ranks", "2"], ["--ranks 2", "--gorila.bundles"]),
        ([*GORILA, "--update", "async"], ["--update async", "--gorila.bundles"]),
        ([*GORILA, "--schedule", "concurrent"], ["--schedule concurrent", "lockstep"]),
        ([*GORILA, "--target-unit", "env-steps"], ["--algo.target-unit env-steps", "updates"]),
        ([*PONG, "--cluster", "gorila", "--gorila.replay", "global"], ["--gorila.replay global", "a2c has no replay"]),
        (
            [
                "train",
                "r2d2",
                "--game",
                "pong",
                "--cluster",
                "gorila",
                "--gorila.replay",
                "global",
                "--no-replay.prioritized",
            ],
            ["--gorila.replay global", "recurrent states"],
        ),
        ([*PONG, "--cluster", "gorilla"], ["gorilla", "gorila"]),
        ([*PONG, "--address", "auto"], ["--address auto", "--cluster"]),
        (
            ["train", "rainbow", "--game", "pong", "--cluster", "gorila", "--gorila.replay", "global"],
            ["prioritized", "uniformly"],
        ),
        ([*PONG, "--cores", "0", "4096"], ["4096", "allowed"]),
        ([*PONG, "--max-skipped-updates", "0"], ["--max-skipped-updates 0"]),
        ([*PONG, "--sampler.reset", "waitt"], ["waitt", "wait"]),
        ([*PONG, "--engine", "device", "--workers", "2"], ["workers 2", "device"]),
        ([*PONG, "--engine", "device", "--inference-per-worker"], ["inference-per-worker", "device"]),
        ([*PONG, "--engine", "device", "--reset", "wait"], ["reset wait", "immediate or cached"]),
        ([*PONG, "--engine", "device", "--randomness", "sequence"], ["sequence", "counter"]),
        ([*PONG, "--engine", "device", "--env.backend", "ale"], ["backend ale", "emulator"]),
        (["train", "ppo", "--game", "kaboom", "--engine", "device"], ["kaboom", "57 benchmark games"]),
        ([*PONG, "--engine", "device", "--noop-max", "200"], ["noop_max=200", "at most 100"]),
        ([*PONG, "--engine", "devise"], ["devise", "device"]),
        (["train", "a2c", "--env", "CartPole-v1", "--engine", "device"], ["CartPole-v1", "Atari"]),
        (["train", "a2c", "--game", "backgammon", "--engine", "device"], ["backgammon", "emulator"]),
        ([*PONG, "--randomness", "countr"], ["countr", "counter"]),
        ([*PONG, "--randomness", "counter", "--env.backend", "ale"], ["counter", "emulator"]),
        (["train", "a2c", "--env", "CartPole-v1", "--randomness", "counter"], ["counter", "CartPole-v1"]),
        (["train", "a2c", "--env", "CartPole-v1", "--reset", "cached"], ["cached", "CartPole-v1", "swap"]),
        ([*PONG, "--protocol", "stooke2017"], ["stooke2017", "stooke2018"]),
        ([*PONG, "--env.mode", "77"], ["77"]),
        ([*PONG, "--device", "cuda:9"], ["cuda:9", "cpu"]),
        ([*PONG, "--parallel", "0"], ["evaluation.parallel 0"]),
        ([*PONG, "--decorrelation-steps", "-3"], ["decorrelation-steps -3"]),
        ([*PONG, "--ranks", "0"], ["ranks 0", "at least 1"]),
        ([*PONG, "--ranks", "3"], ["--envs 16", "3 ranks", "use 18"]),
        ([*PONG, "--gpus", "0,x"], ["--gpus '0,x'", "0-3,8"]),
        ([*PONG, "--gpus", "0,1"], ["--gpus cuda:0", "not available"]),
        ([*PONG, "--ranks", "2", "--update", "asinc"], ["asinc", "async"]),
        ([*PONG, "--local-updates", "2"], ["local-updates 2", "--update async"]),
        ([*PONG, "--local-updates", "2", "--update", "async"], ["local-updates 2", "adam", "rmsprop-torch"]),
        ([*DQN, "--ranks", "3", "--envs", "18"], ["--batch-size 32", "3 ranks", "use 33"]),
        ([*DQN, "--update", "async", "--secondary.batch", "32"], ["secondary", "all-reduce"]),
        ([*DQN, "--ranks", "2", "--secondary.batch", "33"], ["batch 33", "2 ranks; use 34"]),
        ([*DQN, "--schedule", "concurrent", "--target-unit", "updates"], ["only env-steps"]),
        ([*DQN, "--precision", "float16"], ["float16", "tfloat32"]),
        (
            [*DQN, "--ranks", "2", "--schedule", "concurrent", "--target-interval", "100"],
            ["target-interval 100", "use"],
        ),
        ([*PONG, "--sampler.timeout-s", "inf"], ["--sampler.timeout-s inf", "at most"]),
        ([*PONG, "--sampler.timeout-s", "1e-9"], ["--sampler.timeout-s 1e-09", "0.1 to 1e+06 seconds"]),
        ([*PONG, "--distributed.timeout-s", "0"], ["--distributed.timeout-s 0", "0.1 to 1e+06 seconds"]),
        ([*PONG, "--gamma", "nan"], ["--algo.gamma nan"]),
        ([*PONG, "--env-steps", "1e300"], ["--env-steps 1e+300", "at most"]),
        ([*PONG, "--decorrelation-steps", "1e18"], ["--sampler.decorrelation-steps 1e+18", "at most 1000000"]),
        ([*PONG, "--envs", "1e9"], ["--sampler.envs 1000000000", "at most 1000000"]),
        ([*PONG, "--groups", "1e9"], ["--sampler.groups 1000000000", "at most --sampler.envs 16"]),
        ([*PONG, "--torch-threads", "1e6"], ["--torch-threads 1000000", "at most 1024"]),
        ([*PONG, "--horizon", "1e9"], ["GiB are needed on the host", "shorter horizon"]),
        ([*PONG, "--ranks", "200", "--envs", "200000"], ["GiB are needed on the host", "fewer workers or ranks"]),
        (["train", "a2c", "--env", "CartPole-v1", "--lstm", "1e9"], ["the network is too large"]),
        (["train", "a2c", "--env", "CartPole-v1", "--lstm", "1e5"], ["the network and its optimizer need 4"]),
        ([*PONG, "--run-dir", "x" * 300], ["--run-dir xxx", "File name too long"]),
        (["trian"], ["trian", "train"]),
        (["resume", "missing/run"], ["missing/run", "no run"]),
        (["evaluate"], ["run folder"]),
        (["plot", "missing/run"], ["missing/run"]),
        (["watch", "missing/run", "--out", "x.avi"], [".mp4"]),
        (["doctor", "--fix"], ["--fix"]),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) and x and " " not in x[0] else "",
)
def test_one_line_and_exit_code_2(argv, parts, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(argv) == 2
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if not line.startswith("note: ")]
    assert len(lines) == 1 and out == "", err
    for part in parts:
        assert part in lines[0], lines[0]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("argv", "environment", "parts"),
    [
        ([*PONG, "--ranks", "4"], {}, ["--ranks 4", "started 2"]),
        (PONG, {"TORCHELASTIC_MAX_RESTARTS": "3"}, ["--run-dir", "--max-restarts"]),
        (PONG, {"RANK": "first"}, ["RANK", "first"]),
    ],
)
def test_what_torchrun_cannot_start(argv, environment, parts, capsys, monkeypatch):
    started = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", **environment}
    for name, value in started.items():
        monkeypatch.setenv(name, value)
    assert main(argv) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1 and all(part in err for part in parts), err


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    words = ("--env", "CartPole-v1", "--env-steps", 800, "--evaluation.interval", 0, "--engine", "in-process")
    done = run("train", "a2c", *words, "--run-dir", folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_a_folder_that_holds_a_run(finished, capsys):
    before = checkpoint_bytes(finished)
    assert main(["train", "a2c", "--env", "CartPole-v1", "--run-dir", str(finished)]) == 2
    err = capsys.readouterr().err
    assert "already holds a run" in err and "accel-rl resume" in err
    assert checkpoint_bytes(finished) == before


@pytest.mark.parametrize("damage", ["flip", "cut", "manifest", "foreign", "gone", "config"])
def test_a_damaged_or_foreign_checkpoint(finished, tmp_path, capsys, damage):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    checkpoint = sorted((folder / "checkpoints").iterdir())[-1]
    file = checkpoint / "state.safetensors"
    data = bytearray(file.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    elif damage == "cut":
        file.write_bytes(data[:-100])
    elif damage == "manifest":
        (checkpoint / "MANIFEST.json").write_text("{")
    elif damage == "foreign":
        (checkpoint / "MANIFEST.json").write_text(json.dumps({"format": "something else"}))
    elif damage == "gone":
        file.unlink()
    else:
        (folder / "config.json").write_text(json.dumps({"algorithm": "a2c", "sede": 1}))
    for command in ("resume", "evaluate"):
        assert main([command, str(folder), *(["--env-steps", "1600"] if command == "resume" else [])]) == 2
        err = capsys.readouterr().err
        assert len(err.splitlines()) == 1 and str(folder) in err


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"env": {"id": "Acrobot-v1"}}, "of another run (--env.id CartPole-v1, this run has Acrobot-v1)"),
        ({"seed": 7}, "of another run (--seed 0, this run has 7)"),
        ({"algo": {"learning_rate": 0.5}}, "of another run (--algo.learning-rate "),
        ({"sampler": {"horizon": 7}}, "of another run (--sampler.horizon 5, this run has 7)"),
        ({"distributed": {"update": ":"}}, "would import and run --distributed.update :"),
        ({"schedule": ".x:y"}, "would import and run --schedule .x:y"),
        ({"name": "000000001599"}, "is the checkpoint at 800 env steps under another name"),
    ],
    ids=str,
)
def test_a_checkpoint_of_another_run(changed, says, finished, tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    if name := changed.pop("name", None):
        next((folder / "checkpoints").iterdir()).rename(folder / "checkpoints" / name)
    config = json.loads((folder / "config.json").read_text())
    for key, value in changed.items():
        config[key] = {**config[key], **value} if isinstance(value, dict) else value
    (folder / "config.json").write_text(json.dumps(config))
    assert main(["resume", str(folder), "--env-steps", "1600"]) == 2
    (line,) = (x for x in capsys.readouterr().err.splitlines() if not x.startswith("note: "))
    assert says in line
