"""Every command line and Python block of README.md and docs is executed, with options that make it tiny.

Command lines that contain a key of `PLANNED` need a cluster, GPUs, an extra package or hours. The arguments of these
PLANNED command lines are parsed and checked, and a sweep's runs are planned, but nothing is started.
"""

import dataclasses
import functools
import importlib
import json
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from accel_rl.algos.dqn import DQN
from accel_rl.algos.impala import IMPALA
from accel_rl.algos.ppo import PPO
from accel_rl.algos.replay_algorithm import ReplayAlgorithm
from accel_rl.cli.main import COMMANDS, main
from accel_rl.cli.train_command import parse_train
from accel_rl.machine import hardware
from accel_rl.machine.machine import of_cores
from accel_rl.parsing.arguments import parse, split
from accel_rl.settings.registry import find, find_algorithm
from accel_rl.settings.resolved import resolve
from accel_rl.settings.train import TrainConfig, default_config
from accel_rl.sweeps import sweep_command as sweep
from accel_rl.sweeps import sweep_display
from accel_rl.sweeps.grid import find_grid
from accel_rl.sweeps.search_command import SearchOptions
from accel_rl.sweeps.search_command import check as check_search
from tests.marks import slow
from tests.test_docs import PAGES, ROOT, blocks, command_lines, examples, name

STARTS, COPY = "pong.starts.json", "run"
# settings of all runs
RUN = "--env-steps 64 --evaluation.interval 0 --decorrelation-steps 0 --torch-threads 1 --envs 4".split()  # noqa: SIM905
REPLAY = "--replay.size 1000 --replay.start 32 --batch-size 16".split()  # noqa: SIM905
TINY = {
    "accel-rl evaluate": "--episodes 1 --steps 20",
    "accel-rl plot": "--y eval_score",
    "accel-rl watch": "--steps 20",
    "accel-rl report": "--reps 10",
    "accel-rl starts": "--points 2 --games 1 --steps 20",
}
# Maps a part of a command line to the reason why the command is only parsed and planned.
PLANNED = {
    "--gpus": "needs GPUs",
    "--cluster": "needs Ray and minutes; tests/gorila trains such runs",
    "--address": "needs a running cluster",
    "address=": "needs a running cluster",
    "experiments.gorila:pong_small": "hours; tests/papers trains it, smaller",
    "torchrun": "tests/integration/test_ranks.py starts torchrun",
    "accel-rl resume runs/": "a run on a cluster",
    "watch RUN --game": "a run of several games; tests/integration/test_several_games.py watches one",
    "accel-rl launch": "scripts of others: planned by --dry-run",
    "accel-rl sweep": "hours: planned by --dry-run",
    "accel-rl search": "hours: a first trial is planned; tests/sweeps/test_search.py runs searches",
    "python -m benchmarks": "minutes to hours; tests/benchmarks runs each at a small size",
    **{
        f"python -m tests.{name}": f"minutes to hours; tests/{name}"
        for name in ("calls", "chaos", "learning_series", "load", "schedules")
    },
    "python -m tests.emulator.trace": "an hour; tests/benchmarks runs it at a small size",
    "accel-rl bench": "tests/cli/test_programs.py runs it",
}
# Commands that are not executed and not parsed.
FOREIGN = {"python -m pip": "installs", "python -m pytest": "the tests themselves"}
# Command lines that contain a word of SLOW are slow tests.
SLOW = ["--ranks", "secondary_learner", "dqn_scaling", "pong_rainbow", "--groups", "--sampler.engine", "--env.backend"]
SLOW += ["runs/", "munchausen:", "my_ppo:", "my_network:", "my_net:", "my_env:", "lion:"]
SLOW += ["completion", "report RUNS --out", "suite/", "resume RUN --", "--best --s", "--episodes 30", "RUN/model"]
# Execution of command lines with one of the words below takes long. Fast tests only parse and plan these lines.
SLOW += [
    "--seed 3",
    "--learning-rate",
    "--preset",
    "--protocol",
    "--init",
    "--starts-file",
    "--schedule",
    "experiments.",
]
SLOW += ["--engine device", "--envs 64", "--network my_", "--replay.size", "starts RUN", "soft_q:"]
# Maps a part of a command line to the Python package that the command needs.
EXTRA = {"--onnx": "onnxscript", "accel-rl search": "optuna", "recorded_env:": "pygame", "MinAtar/": "minatar"}

LINES = sorted({shlex.join(words) for page in PAGES for words in command_lines(page)})


def reason(line: str, table: dict[str, str]) -> str | None:
    return next((why for key, why in table.items() if key in line), None)


EXECUTED = [line for line in LINES if reason(line, PLANNED) is None and reason(line, FOREIGN) is None]
NOT_EXECUTED = [line for line in LINES if reason(line, PLANNED)]
SLOW_RUNS = [line for line in EXECUTED if line.startswith("accel-rl train") and any(word in line for word in SLOW)]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """A folder with the pages' example modules, a short run of Pong, its exported model, and start points."""
    folder = tmp_path_factory.mktemp("docs")
    for module, code in examples().items():
        (folder / f"{module}.py").write_text(code)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        words = ["train", "ppo", "--game", "pong", *size_of_run(["ppo"])]
        words += ["--evaluation.interval", "64", "--evaluation.episodes", "1", "--evaluation.max-episode-steps", "20"]
        assert main([*words, "--run-dir", "trained"]) == 0
        assert main(["export", "trained", "--out", "model"]) == 0
        assert main(["starts", "pong", *TINY["accel-rl starts"].split(), "--out", STARTS]) == 0
    return folder


@pytest.fixture
def here(workplace, monkeypatch):
    monkeypatch.chdir(workplace)
    monkeypatch.syspath_prepend(workplace)
    monkeypatch.syspath_prepend(ROOT)
    yield workplace
    for module in examples():
        sys.modules.pop(module, None)


def small(words: list[str], folder: Path) -> list[str]:
    """Return a command's arguments, changed to be tiny. RUN is replaced by the run of the fixture `workplace`."""
    command, rest = words[1], words[2:]
    if command == "train":
        rest = split([COPY if word == "RUN" else word for word in rest], ["--budget"])[1]
        return words[1:] if "--help" in rest else ["train", *rest, *size_of_run(rest), "--run-dir", new_run(folder)]
    if command == "resume":
        rest = [*(word for word in rest if word not in ("--env-steps", "4e6")), "--env-steps", "128"]
    if command == "runs":  # `accel-rl runs` lists the runs in the current folder.
        return ["runs", ".", *rest[int(bool(rest) and not rest[0].startswith("-")) :]]
    if command in ("push", "pull"):
        new = f"./{Path(new_run(folder)).name}"
        place = new if command == "push" else "./model"
        rest = [{"NAME/MODEL": place, "MODEL": "model", "RUN/model": "model"}.get(word, word) for word in rest]
        return [command, *rest] if command == "push" else [command, *rest, "--out", new]
    rest = ["model" if word == "RUN/model" else word for word in rest]
    runs = [word for word in rest if word in ("RUN", "RUNS") or word.startswith("runs/")]
    rest = [COPY, *(word for word in rest if word not in runs)] if runs else rest
    return [command, *rest, *TINY.get(f"accel-rl {command}", "").split()]


def size_of_run(rest: list[str]) -> list[str]:
    """Return the further arguments that make a training with the arguments `rest` tiny."""
    # The run COPY was trained by PPO.
    kind = PPO if "--config" in rest else find_algorithm(default_config(rest[0]).algorithm)
    vectors = {"CartPole-v1", "my_env:make_env", "experiments.recall:make"} & {*rest}
    size = [*RUN, "--workers", "1"] if "device" not in rest else [*RUN]
    if issubclass(kind, ReplayAlgorithm):
        size += REPLAY if vectors or not issubclass(kind, DQN) else [*REPLAY, "--network", "a3c"]
    elif kind is IMPALA:
        size += ["--algo.window", "8", "--batches", "2", "--horizon", "8"]
    else:
        size += ["--horizon", "8"]
    if issubclass(kind, PPO):
        size += ["--minibatch", "32"]
    if "concurrent" in rest:
        return [*size, "--target-interval", "64", "--horizon", "2"]
    if "experiments.stooke:secondary_learner" in rest:
        size += ["--secondary.batch", "8"]
    if STARTS in rest:
        size += ["--evaluation.max-episode-steps", "20"]
    return size if {"--ranks", "device"} & {*rest} else [*size, "--engine", "in-process"]


def new_run(folder: Path) -> str:
    return str(folder / f"run-{len(list(folder.glob('run-*')))}")


def marked(lines: list[str], slow: Sequence[str] = ()) -> list[Any]:
    """Return command lines as test parameters.

    Lines that contain a word of `slow` are slow tests, and lines that contain a key of EXTRA need a package.
    """
    found = []
    for line in lines:
        marks = [pytest.mark.needs(package) for word, package in EXTRA.items() if word in line]
        marks += [pytest.mark.slow] if any(word in line for word in slow) else []
        found.append(pytest.param(line, marks=marks))
    return found


@pytest.mark.parametrize("line", marked(EXECUTED, SLOW))
def test_it_runs(line, here, capsys, monkeypatch):
    """The command must end with exit code 0."""
    if "suite/" in line:
        monkeypatch.setattr(TrainConfig, "evaluation_limit", 20)
    shutil.copytree(here / "trained", here / COPY)
    try:
        words = shlex.split(line)
        if "launch.status" in line or line.startswith("accel-rl status"):
            pytest.skip("see test_a_sweep_is_run_and_resumed")
        argv = small(words[: words.index(">")] if ">" in words else words, here)
        try:
            assert main(argv) == 0, capsys.readouterr().err
        except SystemExit as done:
            assert "--help" in argv and done.code == 0
    finally:
        shutil.rmtree(here / COPY)


grid_of = functools.cache(find_grid)
"""Cached, because many command lines of the docs name the same grid."""
MACHINE = of_cores(range(32), memory=2**40, gpus=8, gpu_memory=80 * 2**30)
PLAN = {"nodes": 2, "cores_per_node": 32, "threads_per_core": 2, "gpus_per_node": 4, "memory_gib": 1024, "machines": 64}


@pytest.mark.parametrize("line", marked([*NOT_EXECUTED, *SLOW_RUNS]))
def test_it_is_planned(line, here, capsys, monkeypatch):
    """The arguments of command lines that are not executed must be valid together."""
    words = [word for word in shlex.split(line) if word != "--resume"]
    if "accel_rl" in words:  # under torchrun
        words = ["accel-rl", *words[words.index("accel_rl") + 1 :]]
    if words[:2] == ["accel-rl", "train"]:
        with hardware.described(MACHINE):
            resolve(parse_train(split(words[2:], ["--budget"])[1], "accel-rl train", ""))
    elif words[1:3] == ["-m", "launch.sweep"] or words[:2] == ["accel-rl", "sweep"]:
        rest = words[3:] if words[1] == "-m" else words[2:]
        if rest[0] == "runs/sizes":
            pytest.skip("see test_a_sweep_is_run_and_resumed")
        if rest[0] in ("--pause", "--unpause", "--prune"):  # tests/sweeps/test_idle.py pauses a sweep
            assert sweep.main(rest) == 2 and "no sweep" in capsys.readouterr().err
            return
        if "--dry-run" not in rest:
            rest = [*rest, "--dry-run"]
        monkeypatch.setattr(sweep, "find_grid", grid_of)
        if "--only" not in rest:  # Only a few runs of large sweeps are planned.
            begins_at_one = any(name in line for name in ("suite", "atari_100k", "experiments.defaults"))
            rest = [*rest, "--only", "seed=1" if begins_at_one else "seed=0"]
        games = {member.labels.get("game", "") for member in grid_of(rest[0], ()).members}
        if "game=" not in line and "" not in games:
            rest.insert(rest.index("--only") + 1, f"game={'pong' if 'pong' in games else min(games)}")
        (here / "machine.json").write_text(json.dumps(PLAN))
        assert sweep.main([*rest, "--machine", "machine.json"]) == 0, capsys.readouterr().err
    elif words[:2] == ["accel-rl", "launch"]:
        rest = split(words[1:], ["--gpus"])[1]
        assert words[2:] == ["runs/mine"] or main([*rest, "--dry-run"]) == 0, capsys.readouterr().err
    elif words[:2] == ["accel-rl", "resume"] or "watch" in words:
        assert len(words) == (5 if "watch" in words else 3)
    elif words[:2] == ["accel-rl", "search"]:
        options = parse(SearchOptions, words[3:], "accel-rl search", "")
        if words[2] != "runs/search":
            check_search(find(words[2]), options)
    else:
        benchmark(words[3:], words[2])


def benchmark(argv: list[str], module: str) -> None:

    if module == "benchmarks.gpu":
        from benchmarks.gpu.options import parser

        parser().parse_args(argv)
        return
    try:
        program = importlib.import_module(module)
        options = getattr(program, "Options", None) or importlib.import_module(f"{module}.__main__").Options
    except ImportError as e:
        pytest.skip(f"needs the extra bench: {e}")
    assert dataclasses.is_dataclass(parse(options, argv, module, ""))


@pytest.mark.slow
def test_a_sweep_is_run_and_resumed(here, capsys):
    """The commands of docs/sweeps.md are executed one after another."""
    tiny = ["env-steps=128", "sampler.envs=4", "sampler.horizon=8", "algo.minibatch=32", "evaluation.interval=0"]
    assert sweep.main(["my_grids:sizes", "--out", "runs/sizes", "--only", "game=pong", "--override", *tiny]) == 0
    assert sweep_display.main(["runs/sizes"]) == 0
    assert sweep.main(["--resume", "runs/sizes"]) == 0
    assert main(["report", "runs/sizes", "--out", "report", "--reps", "10"]) == 0


def test_a_sweep_is_planned_and_shown(here, capsys):
    assert sweep.main(["my_grids:sizes", "--dry-run"]) == 0
    assert "envs=64" in capsys.readouterr().out


# Python blocks that are scripts: (page, number of the block on the page, {text: replacement that makes it tiny}).
SMALL = 'engine="in-process", torch_threads=1, evaluation__interval=0, evaluation__max_episode_steps=20'
TRAIN = {"env_steps=1e6": f"env_steps=64, envs=4, horizon=8, minibatch=32, {SMALL}"}
TRAIN |= {"episodes=30": "episodes=1, parallel=1"}
SCRIPTS = [
    ("README.md", 0, {**TRAIN, '"episode.gif"': '"episode.gif", steps=20'}),
    ("docs/quickstart.md", 0, TRAIN),
    ("docs/determinism.md", 0, {'"seed": 1}': '"seed": 1, "engine": "in-process", "torch_threads": 1}'}),
    ("docs/faults.md", 0, {}),
    ("docs/device_engine.md", 0, {"num_envs=4096": 'num_envs=2, device="cpu"', "step(actions)": "step([0, 1])"}),
    (
        "docs/vector_env.md",
        0,
        {"seconds=3.0": "seconds=0.1", "range(5)": "range(1)", "num_envs=64": "num_envs=2", "zeros(64": "zeros(2"},
    ),
    ("docs/vector_env.md", 1, {"num_envs=8": "num_envs=2"}),
    ("docs/vector_env.md", 2, {"num_envs=8": "num_envs=2"}),
    ("docs/vector_env.md", 3, {"n_envs=8": "n_envs=2", "n_steps=128": "n_steps=8", "1_000_000": "16"}),
    ("docs/vector_env.md", 4, {"num_envs=8": "num_envs=2", "np.zeros(8": "np.zeros(2"}),
    ("docs/vector_env.md", 5, {'v4", 8': 'v4", 2'}),
    ("docs/extending.md", 13, {}),
    ("docs/gpu.md", 0, {}),
    ("docs/distributed.md", 0, {}),
    ("docs/distributed.md", 1, {}),
]
PARTS = {"docs/gpu.md": "from accel_rl.algos.dqn import DQN\n"}  # Imports that a page's block omits.
NEEDS = {("docs/vector_env.md", 3): "stable_baselines3"}
NEEDS |= {("docs/distributed.md", i): "ray" for i in (0, 1)}


SLOW_SCRIPTS = ("docs/quickstart.md", "docs/determinism.md")


@pytest.mark.parametrize(("page", "index", "smaller"), [slow(*s) if s[0] in SLOW_SCRIPTS else s for s in SCRIPTS])
def test_the_script_runs(page, index, smaller, tmp_path, monkeypatch):
    """Scripts run with tiny sizes. The script of docs/distributed.md only defines a function, which would need a
    cluster."""
    if package := NEEDS.get((page, index)):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    code = PARTS.get(page, "") + blocks(ROOT / page, "python")[index]
    for long, short in smaller.items():
        assert long in code, long
        code = code.replace(long, short)
    names = {"__name__": "__main__"}
    exec(compile(code, page, "exec"), names)
    if page == "docs/determinism.md":
        assert names["equal"]


def test_every_script_is_run():
    """SCRIPTS must contain all Python blocks, except modules (which begin with a file name) and docs/python.md."""
    scripts = {
        (name(p), i) for p in PAGES for i, code in enumerate(blocks(p, "python")) if not re.match(r"# \w+\.py\n", code)
    }
    assert {s for s in scripts if s[0] != "docs/python.md"} == {(page, i) for page, i, _ in SCRIPTS}


def test_what_is_not_run_is_known():
    """Each key of PLANNED and FOREIGN must occur in a command line."""
    for table in (PLANNED, FOREIGN):
        for key in table:
            assert any(line.startswith(key) or key in line for line in LINES), key
    assert {line.split()[1] for line in LINES if line.startswith("accel-rl ")} <= {*COMMANDS}
