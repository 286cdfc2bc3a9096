"""Runs in which one agent plays two games, started by the command line."""

import csv
import json
import shutil

import numpy as np
import pytest

from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.envs.atari_games import human_normalized
from accel_rl.run.run_folder import RunFolder
from accel_rl.training.stored_agents import BestAgent
from tests.integration.runs import assert_equal_runs, checkpoint_bytes, rows, run

GAMES = ("breakout", "pong")
COMMON = (
    *("--game", "breakout, pong", "--env.max-episode-steps", 40, "--decorrelation-steps", 10, "--envs", 4),
    *("--seed", 1, "--torch-threads", 1, "--checkpoint.interval", 400, "--log.interval", 200),
    *("--evaluation.interval", 800, "--evaluation.episodes", 2, "--evaluation.max-episode-steps", 120),
)
REPLAY = ("--network", "a3c", "--batch-size", 8, "--replay.size", 600, "--replay.start", 200, "--intensity", 0.5)
RUNS = {
    "a2c": ("a2c", "--env-steps", 1_600),
    "swap": ("pqn", "--env-steps", 1_600, "--reset", "swap", "--network", "a3c", "--minibatch", 20, "--horizon", 10),
    "dqn": ("dqn", "--env-steps", 1_600, *REPLAY),
    "ranks": ("a2c", "--env-steps", 1_600, "--ranks", 2, "--horizon", 5),
    "ranks of dqn": ("dqn", "--env-steps", 1_600, *REPLAY, "--ranks", 2),
}


@pytest.fixture(scope="module")
def done(request, tmp_path_factory):
    """Make an uninterrupted run, and return its process's result and its folder."""
    folder = tmp_path_factory.mktemp("several") / "run"
    result = run("train", *RUNS[request.param], *COMMON, "--run-dir", folder)
    assert result.returncode == 0, result.stderr
    return result, folder


def mean_percent(values) -> float:
    return float(np.mean([human_normalized(game, value) for game, value in zip(GAMES, values, strict=True)]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--envs", 1), "--envs 1: 1 environment is too few for 2 games; use 2 or more"),
        (("--envs", 2, "--ranks", 2), "--envs 2: 1 environment per rank is too few for 2 games; use 4 or more"),
        (("--engine", "device"), "--sampler.engine device plays a single game"),
        (("--cluster", "gorila"), "--cluster gorila plays a single game"),
        (("--evaluation.starts", "saved", "--starts-file", "x"), "start points are of a single game"),
        (("--full-action-set", "False"), "pong has other actions (6) than breakout (4)"),
    ],
)
def test_bad_input(options, message):
    result = run("train", "dqn", *COMMON, *options)
    assert result.returncode == 2 and message in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("done", ["a2c", "ranks"], indirect=True)
def test_scores_by_game(done, tmp_path):
    result, folder = done
    recorded = json.loads((folder / "config.json").read_text())["env"]
    assert (recorded["game"], recorded["full_action_set"]) == ("breakout,pong", True)
    *_, last = rows(folder)
    scores = [float(last[f"score/{game}"]) for game in GAMES]
    assert float(last["score"]) == pytest.approx(mean_percent(scores), rel=1e-6) and int(last["episodes"]) > 30
    evaluated = [float(last[f"eval_score/{game}"]) for game in GAMES]
    assert float(last["eval_score"]) == pytest.approx(mean_percent(evaluated), rel=1e-6)
    for file in (folder / "evaluations").iterdir():
        outcome = json.loads(file.read_text())
        assert sorted(outcome["played"]) == [0, 0, 1, 1] and outcome["games"] == list(GAMES)
        for i, game in enumerate(GAMES):
            of_game = [s for s, k in zip(outcome["scores"], outcome["played"], strict=True) if k == i]
            assert outcome["score_by_game"][game] == np.mean(of_game)
    best = BestAgent(RunFolder(folder)).load()
    highest = max(float(r["eval_score"]) for r in rows(folder) if r["eval_score"])
    assert best["evaluation"]["score_mean"] == pytest.approx(highest, rel=1e-6)
    assert "% of human over 4 episodes (breakout " in result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("done", ["a2c"], indirect=True)
def test_commands(done, tmp_path):
    _, folder = done
    assert run("report", folder, "--out", tmp_path / "report").returncode == 0
    with open(tmp_path / "report" / "scores.csv") as f:
        table = list(csv.DictReader(f))
    evaluated = {game: float(rows(folder)[-1][f"eval_score/{game}"]) for game in GAMES}
    assert {r["game"]: float(r["score"]) for r in table} == pytest.approx(evaluated, abs=0.01)
    assert {r["setting"] for r in table} == {"A2C-4env on breakout,pong"}
    with open(tmp_path / "report" / "costs.csv") as f:
        assert [r["game"] for r in csv.DictReader(f)] == ["breakout,pong"]
    played = run("evaluate", folder, "--episodes", 1, "--json", tmp_path / "e.json")
    assert "% of human over 2 episodes (breakout " in played.stdout, played.stderr
    assert json.loads((tmp_path / "e.json").read_text())["played"] in ([0, 1], [1, 0])
    gifs = []
    for chosen in ((), ("--game", "breakout"), ("--game", "pong")):
        out = tmp_path / f"{len(gifs)}.gif"
        assert run("watch", folder, *chosen, "--steps", 20, "--out", out).returncode == 0
        gifs.append(out.read_bytes())
    assert gifs[0] == gifs[1] != gifs[2]
    assert "the agent plays breakout,pong" in run("watch", folder, "--game", "seaquest").stderr
    assert run("plot", folder, "--y", "score/pong", "--out", tmp_path / "p.png").returncode == 0
    model = tmp_path / "model"
    assert run("export", folder, "--out", model).returncode == 0
    assert "% of human" in (model / "README.md").read_text()
    assert "of a single game" in run("starts", folder).stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "done", ["a2c", "swap", "dqn", "ranks", "ranks of dqn"], indirect=True
)  # fmt: skip
def test_a_resumed_run_equals_the_uninterrupted_one(done, tmp_path):
    """A run that is resumed without its last two checkpoints, as if it had been killed, equals the uninterrupted
    run."""
    _, whole = done
    cut = tmp_path / "cut"
    shutil.copytree(whole, cut)
    parts = ("", "ranks/1") if (whole / "ranks").exists() else ("",)
    for part in parts:
        for steps in (1_200, 1_600):
            shutil.rmtree(Checkpoints(cut / part / "checkpoints").path(steps))
    resumed = run("resume", cut)
    assert resumed.returncode == 0, resumed.stderr
    assert_equal_runs(whole, cut)
    for part in parts:
        assert checkpoint_bytes(whole / part) == checkpoint_bytes(cut / part)


@pytest.mark.slow
def test_worker_processes_play_the_same_games(tmp_path):
    for engine, further in (("workers", ("--workers", 2)), ("in-process", ())):
        options = ("--engine", engine, "--groups", 2, "--reset", "wait", *further, "--run-dir", tmp_path / engine)
        assert run("train", *RUNS["a2c"], *COMMON, *options).returncode == 0
    assert_equal_runs(tmp_path / "workers", tmp_path / "in-process")


@pytest.mark.slow
def test_asynchronous_ranks_count_the_episodes_of_each_game(tmp_path):
    options = ("--ranks", 2, "--update", "async", "--run-dir", tmp_path / "run")
    done = run("train", *RUNS["a2c"], *COMMON, *options)
    assert done.returncode == 0, done.stderr
    *_, last = rows(tmp_path / "run")
    assert float(last["score"]) == pytest.approx(mean_percent([float(last[f"score/{game}"]) for game in GAMES]))
    assert float(last["score/pong"]) <= 0 <= float(last["score/breakout"])
