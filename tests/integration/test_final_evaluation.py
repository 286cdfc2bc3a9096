"""The final evaluation of Nair et al. 2015: the best network plays from null-op starts and from human starts, and is
compared with random play."""

import json
import shutil

import pytest
import torch

from accel_rl.checkpoints.checkpoint import Checkpoints, load
from accel_rl.cli.main import main
from accel_rl.envs.start_points import NOTE
from accel_rl.run.run_folder import RunFolder
from accel_rl.training.stored_agents import BestAgent
from tests.integration.runs import run

TRAIN = (
    "train", "a2c", "--game", "pong", "--engine", "in-process", "--envs", 2, "--horizon", 10, "--env-steps", 600,
    "--decorrelation-steps", 0, "--evaluation.interval", 200, "--evaluation.max-episode-steps", 60, "--parallel", 4,
    "--checkpoint.interval", 200, "--torch-threads", 1,
)  # fmt: skip
BREAKOUT = ["train", "a2c", "--game", "breakout"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("final")
    starts = folder / "pong.json"
    assert main(["starts", "pong", "--points", "9", "--games", "2", "--steps", "50", "--out", str(starts)]) == 0
    done = run(*TRAIN, "--run-dir", folder / "run", "--evaluation.starts", "saved", "--starts-file", starts)
    assert not done.returncode, done.stderr
    return folder


def test_training_is_evaluated_from_each_start_and_keeps_the_best(trained):
    files = sorted((trained / "run" / "evaluations").iterdir())
    found = [json.loads(f.read_text()) for f in files]
    assert [f["env_steps"] for f in found] == [200, 400, 600]
    assert all(f["episodes"] == 9 and f["protocol"]["starts_note"] == NOTE for f in found)
    first = max(found, key=lambda f: f["score_mean"])
    best = BestAgent(RunFolder(trained / "run")).load()
    assert best["env_steps"] == first["env_steps"] and best["evaluation"]["scores"] == first["scores"]
    checkpoint = load(Checkpoints(trained / "run" / "checkpoints").path(best["env_steps"]))
    kept, saved = (x["learner"]["network"] for x in (best, checkpoint))
    assert kept.keys() == saved.keys() and all(torch.equal(kept[name], saved[name]) for name in kept)


@pytest.mark.slow
def test_a_resumed_run_keeps_what_an_uninterrupted_one_keeps(trained):
    killed = trained / "killed"
    shutil.copytree(trained / "run", killed)
    shutil.rmtree(killed / "best")
    for steps in (400, 600):
        shutil.rmtree(killed / "checkpoints" / f"{steps:012d}")
    assert not run("resume", killed).returncode
    later = [json.loads(f.read_text()) for f in sorted((killed / "evaluations").iterdir())][1:]
    assert BestAgent(RunFolder(killed)).score == max(f["score_mean"] for f in later)
    again = trained / "again"
    shutil.copytree(trained / "run", again)
    for steps in (400, 600):
        shutil.rmtree(again / "checkpoints" / f"{steps:012d}")
    assert not run("resume", again).returncode
    assert BestAgent(RunFolder(again)).load()["env_steps"] == BestAgent(RunFolder(trained / "run")).load()["env_steps"]


def test_results_are_saved_where_the_report_finds_them(trained, capsys):
    path = str(trained / "run")
    assert main(["evaluate", path, "--best", "--save"]) == 0
    assert main(["evaluate", path, "--starts", "noop", "--episodes", "3", "--save"]) == 0
    assert main(["evaluate", path, "--random", "--save"]) == 0
    assert main(["evaluate", path, "--random", "--starts", "noop", "--episodes", "5", "--save"]) == 0
    assert "random actions at 10 Hz: score" in capsys.readouterr().out
    found = {f.stem: json.loads(f.read_text()) for f in (trained / "run" / "final").iterdir()}
    counts = {"saved": 9, "noop": 3, "random-saved": 9, "random-noop": 5}
    assert {name: f["episodes"] for name, f in found.items()} == counts
    assert {name: f["agent"] for name, f in found.items()} == {
        "saved": "best", "noop": "newest", "random-saved": "random", "random-noop": "random"
    }  # fmt: skip
    assert found["random-noop"]["protocol"]["frame_skip"] == 6
    assert found["saved"]["env_steps"] == BestAgent(RunFolder(trained / "run")).load()["env_steps"]


def test_the_agent_of_a_run_records_start_points(trained, capsys):
    out = trained / "agent.json"
    arguments = ["starts", str(trained / "run"), "--best", "--points", "5", "--games", "1", "--steps", "20"]
    assert main([*arguments, "--out", str(out)]) == 0
    assert NOTE in capsys.readouterr().out
    assert json.loads(out.read_text())["policy"].startswith("a2c after ")


@pytest.mark.parametrize(
    ("argv", "parts"),
    [
        (["evaluate", "RUN", "--starts-file", "OTHER"], ["--evaluation.starts-file", "game=breakout", "game=pong"]),
        (["evaluate", "RUN", "--starts-file", "none.json"], ["none.json: No such file", "accel-rl starts"]),
        (["evaluate", "RUN", "--starts", "noop", "--starts-file", "OTHER"], ["starts noop", "saved needs a file"]),
        (["evaluate", "RUN", "--starts", "human"], ["human", "saved"]),
        (["evaluate", "RUN", "--best", "--checkpoint", "x"], ["--best and --checkpoint x"]),
        (["evaluate", "RUN", "--best", "--random"], ["--random", "leave out --best"]),
        (["watch", "RUN", "--best", "--checkpoint", "x"], ["--best and --checkpoint x"]),
        (["starts"], ["the game, or a run folder is missing"]),
        (["starts", "pongg"], ["pongg", "nearest: pong"]),
        (["starts", "pong", "--best"], ["--best", "folder of a run"]),
        (["starts", "pong", "--points", "0", "--games", "1", "--steps", "5"], ["0 start points", "from 1 to 4"]),
        (["starts", "pong", "--out", "no/folder/x.json"], ["no folder no/folder"]),
        (["train", "a2c", "--game", "pong", "--evaluation.starts", "saved"], ["saved needs a file"]),
        (
            ["train", "a2c", "--env", "CartPole-v1", "--evaluation.starts", "saved", "--starts-file", "OTHER"],
            ["CartPole-v1", "Atari"],
        ),
        (
            [*BREAKOUT, "--engine", "device", "--starts", "saved", "--starts-file", "OTHER"],
            ["engine device", "workers"],
        ),
        (
            [*BREAKOUT, "--starts", "saved", "--starts-file", "OTHER", "--max-evaluation-steps", "2"],
            ["a start point is at frame", "at frame 8"],
        ),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(trained, capsys, tmp_path, monkeypatch, argv, parts):
    monkeypatch.chdir(tmp_path)
    other = trained / "other.json"
    if not other.exists():
        assert main(["starts", "breakout", "--points", "9", "--games", "1", "--steps", "20", "--out", str(other)]) == 0
        capsys.readouterr()
    names = {"RUN": str(trained / "run"), "OTHER": str(other)}
    assert main([names.get(word, word) for word in argv]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and all(part in said[0] for part in parts), said
