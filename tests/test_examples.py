"""Every program in examples/ runs at a small size."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from accel_rl.cli.main import main
from accel_rl.settings.registry import find
from accel_rl.sweeps.search_command import SearchOptions, check
from tests.integration.runs import run

ROOT = Path(__file__).parent.parent
SMALL = {
    "train_in_python": (2_048, "evaluation:"),
    "clipped_targets": (700, ""),
    "own_network": (2_048, ""),
    "own_environment": (512, ""),
    "rollouts": (640, "640 env steps"),
    "vector_env": (800, "episodes, mean score"),
    "replay_alone": (2_100, "2,000 env steps, score"),
}


def test_all_are_listed_and_tested():
    names = {p.stem for p in (ROOT / "examples").glob("*.py")}
    assert names == {*SMALL, "sweep", "search", "pqn", "go_explore"}
    listed = (ROOT / "examples/README.md").read_text()
    assert all(f"[{name}.py]({name}.py)" in listed for name in names)


# The examples in SLOW are slow tests: tests/test_docs.py and tests/api/test_sampler.py make the same calls.
SLOW = ("replay_alone", "train_in_python", "own_network", "own_environment", "clipped_targets", "rollouts")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in SMALL])
def test_it_runs(name, tmp_path):
    steps, line = SMALL[name]
    done = run(steps, module=str(ROOT / f"examples/{name}.py"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert line in done.stdout


@pytest.mark.slow
def test_what_go_explore_found_can_be_replayed(tmp_path):
    flags = ("ms_pacman", "--minutes", 0.1, "--envs", 8)
    done = run(*flags, module=str(ROOT / "examples/go_explore.py"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    best, replayed = re.search(r"best score ([\d,]+) after .*: ([\d,]+)$", done.stdout.strip()).groups()
    assert best == replayed and int(best.replace(",", "")) > 60


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("library", "argv", "line"),
    [
        ("stable_baselines3", ["sb3_learners.py", "ppo", "2048"], "ppo: 2048 steps, "),
        ("stable_baselines3", ["sb3_learners.py", "dqn", "1000", "--game", "freeway"], "dqn: 1000 steps, "),
        ("torchrl", ["torchrl_rollouts.py", "400", "--game", "ms_pacman"], "400 steps"),
        ("tianshou", ["tianshou_collector.py", "400", "--game", "breakout"], "400 steps"),
    ],
)
def test_other_libraries_run_on_the_emulator(library, argv, line, tmp_path):
    pytest.importorskip(library)
    command = [sys.executable, str(ROOT / "examples" / "peers" / argv[0]), *argv[1:]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=880, check=False)
    assert done.returncode == 0, done.stderr
    assert line in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("script", ["ppo_atari_envpool.py", "pqn_atari_envpool.py", "ppo_atari.py", "dqn_atari.py"])
def test_scripts_of_cleanrl_run_on_the_emulator(script, tmp_path):
    """The environment variable CLEANRL names a checkout of CleanRL. The scripts for EnvPool need Gym before 0.26."""
    if "CLEANRL" not in os.environ:
        pytest.skip("CLEANRL names no checkout")
    pytest.importorskip("gym" if "envpool" in script else "tyro")
    task = "Pong-v5" if "envpool" in script else "PongNoFrameskip-v4"
    path = Path(os.environ["CLEANRL"]) / "cleanrl" / script
    argv = [str(path), "--env-id", task, "--total-timesteps", "12000"]
    dqn = ["--learning-starts", "10000", "--buffer-size", "12000"]
    argv += dqn if script.startswith("dqn") else ["--num-envs", "8"]
    command = [sys.executable, str(ROOT / "examples" / "peers" / "cleanrl_scripts.py"), *argv]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=880, check=False)
    assert done.returncode == 0, done.stderr
    assert "SPS: " in done.stdout and "episodic_return=" in done.stdout
    changed = [line for line in done.stdout.splitlines() if line.startswith("+") and not line.startswith("+++")]
    assert len(changed) == (1 if "envpool" in script else 2)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_notebook_runs(tmp_path, monkeypatch):
    """The notebook runs in a real kernel, whose main module has no file."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("STEPS", "2048")
    monkeypatch.setenv("EPISODES", "1")
    notebook = nbformat.read(ROOT / "examples" / "notebook.ipynb", 4)
    nbformat.validate(notebook)
    place = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=800, kernel_name="python3", resources=place).execute()
    assert "evaluation at 2,048 env steps" in str(notebook.cells) and "image/gif" in str(notebook.cells)


def test_the_grid_is_planned(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert main(["sweep", "examples.sweep:sizes", "--dry-run"]) == 0
    assert "envs=64" in capsys.readouterr().out


@pytest.mark.needs("optuna")
def test_the_search_is_checked():
    """tests/sweeps/test_search.py runs searches."""
    check(find("examples.search:space"), SearchOptions())


@pytest.mark.slow
@pytest.mark.needs("optuna")
def test_the_search_runs(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(ROOT)
    small = ["env-steps=512", "horizon=16", "minibatch=64", "evaluation.interval=512", "evaluation.episodes=1"]
    options = ["--trials", "1", "--override", *small, "env.max-episode-steps=50", "--out", str(tmp_path / "search")]
    assert main(["search", "examples.search:space", *options]) == 0, capsys.readouterr().err
    assert "1 complete" in capsys.readouterr().out
