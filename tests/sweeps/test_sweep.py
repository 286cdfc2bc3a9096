"""Sweeps of real runs: finished, killed, stopped, and resumed."""

import contextlib
import json
import os
import shutil
import signal
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest

from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.machine import hardware, machine
from accel_rl.run.listed_runs import read_progress
from accel_rl.sweeps import sweep_command as sweep
from accel_rl.sweeps.layout import Needs, Size, needs_of_begun, on_gpus
from accel_rl.sweeps.pinned_run import main as child
from accel_rl.sweeps.sweep_display import main as status
from accel_rl.sweeps.sweep_folder import SweepFolder
from accel_rl.sweeps.sweep_plan import PlannedRun
from accel_rl.text.errors import ConfigError
from tests.integration.runs import checkpoint_bytes, progressed, rows, wait_for
from tests.integration.runs import run as run_module
from tests.integration.runs import start as start_module
from tests.integration.warm import Forked
from tests.sweeps import grids

SMALL, LONG, MIXED = "tests.sweeps.grids:small", "tests.sweeps.grids:long", "tests.sweeps.grids:mixed"
NAMES = ["envs=4,seed=0", "envs=4,seed=1", "envs=8,seed=0"]
start, run = partial(start_module, module="launch.sweep"), partial(run_module, module="launch.sweep")


def tree(pid: int) -> list[psutil.Process]:
    sweep_process = psutil.Process(pid)
    return [sweep_process, *sweep_process.children(recursive=True)]


def states(folder: Path) -> dict[str, str]:
    return {n: r["status"] for n, r in json.loads((folder / "state.json").read_text()).items()}


def assert_equal(a: Path, b: Path, names: list[str]) -> None:
    for name in names:
        assert rows(a / name) == rows(b / name)
        assert checkpoint_bytes(a / name) == checkpoint_bytes(b / name)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An uninterrupted sweep of the grid `long`, whose results interrupted sweeps must also have."""
    folder = tmp_path_factory.mktemp("sweeps") / "whole"
    done = run(LONG, "--out", folder)
    assert done.returncode == 0, done.stderr
    assert set(states(folder).values()) == {"done"} and "3 runs: 3 done" in done.stdout
    return folder


@pytest.mark.slow
def test_a_killed_run_is_retried_and_equals_its_twin(whole, tmp_path):
    folder = tmp_path / "sweep"
    process = start(LONG, "--out", folder)
    victim = folder / NAMES[0]
    wait_for(lambda: progressed(victim, 4))
    os.kill(json.loads((folder / "state.json").read_text())[NAMES[0]]["pid"], signal.SIGKILL)
    _, err = process.communicate(timeout=250)
    assert process.returncode == 0, err
    assert f"{NAMES[0]}: killed by SIGKILL; goes on from its last checkpoint (retry 1 of 2)" in err
    assert "killed by SIGKILL" in (folder / "events.log").read_text()
    assert json.loads((folder / "state.json").read_text())[NAMES[0]]["attempts"] == 2
    assert_equal(whole, folder, NAMES)


@pytest.mark.slow
def test_ctrl_c_and_resume_give_the_same_results(whole, tmp_path, capsys):
    """While the sweep runs, each run is also pinned to its own core."""
    folder = tmp_path / "sweep"
    process = start(LONG, "--out", folder)
    seen: dict[int, list[int]] = {}

    def two_are_pinned() -> bool:
        for p in psutil.Process(process.pid).children():
            # A child process may be git, which ends soon.
            with contextlib.suppress(psutil.Error):
                if "resume" in p.cmdline():
                    seen[p.pid] = p.cpu_affinity()
        return len(seen) == min(len(NAMES), len(hardware.allowed_cores())) or process.poll() is not None

    wait_for(two_are_pinned)
    cores = [c for a in seen.values() for c in a]
    assert set(cores) <= set(hardware.allowed_cores()) and len(set(cores)) == len(cores) == len(seen)
    wait_for(lambda: progressed(folder / NAMES[0], 4))
    assert sweep.main([LONG, "--out", str(folder)]) == 2
    assert f"in use by a running sweep (process {process.pid} on" in capsys.readouterr().err
    assert sweep.main(["--resume", str(folder)]) == 2
    assert "in use" in capsys.readouterr().err
    assert status([str(folder)]) == 0
    assert f"running: process {process.pid}" in capsys.readouterr().out
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=100)
    assert process.returncode == 130 and f"--resume {folder}" in out
    assert not any(psutil.pid_exists(pid) for pid in seen)
    assert "stopped" in states(folder).values() and set(states(folder).values()) <= {"stopped", "waiting", "done"}
    assert sweep.main([LONG, "--out", str(folder)]) == 2
    assert "--resume" in capsys.readouterr().err
    assert sweep.main(["--resume", str(folder)]) == 0, capsys.readouterr().err
    assert_equal(whole, folder, NAMES)
    assert status([str(folder)]) == 0 and "no sweep is running" in capsys.readouterr().out


def watched(process: Forked, until=lambda: False) -> list[dict[str, tuple[int, ...]]]:
    """Return the cores of all running runs, {name of a run: cores}, sampled every 20 ms until the sweep ends."""
    looks: list[dict[str, tuple[int, ...]]] = []
    while process.poll() is None and not until():
        look = {}
        with contextlib.suppress(psutil.Error):  # The sweep may have just ended.
            for p in psutil.Process(process.pid).children():
                line, now = p.cmdline(), p.cpu_affinity()
                if "resume" in line:
                    given = tuple(int(c) for c in line[line.index("--cores") + 1 :])
                    # A run that starts pins itself to single cores for a moment.
                    assert set(now) <= set(given)
                    look[Path(line[line.index("resume") + 1]).name] = given
        looks.append(look)
        time.sleep(0.02)
    return looks


@pytest.mark.slow
@pytest.mark.skipif(len(hardware.allowed_cores()) < 2, reason="needs two cores")
def test_runs_of_one_and_of_two_cores_in_one_sweep_and_resumed(tmp_path, capsys):
    sweep_of = (MIXED, "--gpus", "none", "--cores", ",".join(map(str, hardware.allowed_cores()[:2])))
    names, both = ["envs=8,seed=0", "envs=4,seed=0", "envs=4,seed=1"], tuple(hardware.allowed_cores()[:2])
    whole, folder = tmp_path / "whole", tmp_path / "cut"
    process = start(*sweep_of, "--out", whole)
    looks = watched(process)
    assert process.returncode == 0, process.communicate()
    for look in looks:
        cores = [c for run_cores in look.values() for c in run_cores]
        assert len(set(cores)) == len(cores)  # No two runs share a core.
    seen = {name: {look[name] for look in looks if name in look} for name in names}
    assert seen[names[0]] == {both} and all(len(c) == 1 for n in names[1:] for c in seen[n])
    assert any(len(look) == 2 for look in looks)  # The two runs with one core run at the same time.
    sizes = json.loads((whole / "sweep.json").read_text())["sizes"]
    assert sizes[names[0]] == {"asks": {"gpus": 1, "cores": 2}, "gets": {"gpus": 0, "cores": 2}}

    process = start(*sweep_of, "--out", folder)
    watched(process, until=lambda: progressed(folder / names[0], 2))
    assert json.loads((folder / "state.json").read_text())[names[0]]["slot"] == f"cores {both[0]}-{both[1]}"
    process.kill()
    process.communicate()
    wait_for(lambda: SweepFolder(folder).holder() is None, 60, "the end of its runs")
    assert sweep.main(["--resume", str(folder), "--dry-run"]) == 0, capsys.readouterr().err
    lines = capsys.readouterr().out.splitlines()
    assert "1 run of 2 cores, 1 at the same time:" in lines and "2 runs of 1 core, 2 at the same time:" in lines
    process = start("--resume", folder)
    looks = watched(process)
    assert process.returncode == 0, process.communicate()
    assert {n: {len(k[n]) for k in looks if n in k} for n in names} == {names[0]: {2}, names[1]: {1}, names[2]: {1}}
    assert_equal(whole, folder, names)


def test_a_run_goes_on_with_the_gpus_that_it_was_begun_on(tmp_path, monkeypatch, capsys):
    here = machine.Machine((machine.Node(((0,), (1,), (2,), (3,)), (0, 1)),))
    monkeypatch.setattr("accel_rl.sweeps.layout.this_machine", lambda: here)
    config = grids.cartpole()
    folder = SweepFolder(tmp_path / "sweep")
    folder.path.mkdir()
    two = PlannedRun(
        replace(config, distributed=replace(config.distributed, ranks=2, gpus="0,1")), Needs(4, 4), Size(2)
    )
    one = PlannedRun(config, Needs(1, 1), Size(1))
    folder.create({"two": two, "one": one}, {"two": {}, "one": {}}, {"placing": {}, "slurm": False})
    needs = {n: needs_of_begun(c, folder.plan["sizes"][n]) for n, c in folder.left(trust=False).items()}
    assert needs == {"two": Needs(2, 4), "one": Needs(1, 1)}
    for options in (["--gpus", "none"], ["--gpus-per-run", "1"], ["--gpus", "0"]):
        assert sweep.main(["--resume", str(folder.path), *options]) == 2
        assert "run two: it was begun on 2 GPUs and would get" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_that_goes_on_failing_is_reported(tmp_path):
    folder = tmp_path / "sweep"
    done = run("tests.sweeps.grids:failing", "--out", folder, "--retries", 1)
    assert done.returncode == 1, done.stderr
    bad = next(name for name in states(folder) if "without_a_reward" in name)
    assert states(folder)[bad] == "failed" and sorted(states(folder).values()) == ["done", "failed"]
    assert f"{bad} failed:" in done.stdout
    assert "not finite" in done.stderr and "given up after 2 attempts" in done.stderr


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["tests.sweeps.grids:unknown"], ["learning_rte", "learning-rate"]),
        (["tests.sweeps.grids:empty"], ["'envs' is empty"]),
        (["tests.sweeps.grids:twice"], ["two runs", "envs=4"]),
        (["tests.sweeps.grids:impossible"], ["run envs=5", "2 groups"]),
        ([SMALL, "--gpus", "0-7"], ["--gpus 0-7", "not there"]),
        ([SMALL, "--cores", "0,4096"], ["4096", "allowed"]),
        ([SMALL, "--cores-per-run", "4096"], ["4096"]),
        ([SMALL, "--gpu", "0"], ["--gpu", "--gpus"]),
        ([SMALL, "--only", "envs"], ["--only envs", "KEY=VALUE"]),
        ([SMALL, "--only", "envs=4", "envs=8"], ["twice"]),
        ([SMALL, "--override", "envs=7", "groups=2"], ["B=7"]),
        ([SMALL, "--scale", "0"], ["--scale 0"]),
        ([SMALL, "--machine", "x.json"], ["--dry-run"]),
        ([SMALL, "--machine", "x.json", "--dry-run"], ["x.json", "No such file"]),
        ([], ["experiment"]),
        (["tests.sweeps.grids:nothing"], ["nothing"]),
        (["--resume", "nowhere"], ["nowhere", "no sweep"]),
        ([SMALL, "--slurm"], ["--slurm"]),
    ],
)
def test_bad_input_is_one_line_and_starts_nothing(argv, words, tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(os.getcwd())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("accel_rl.sweeps.feeder.Feeder._start", lambda *a: pytest.fail("a process was started"))
    assert sweep.main(argv) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("note: ")]
    assert len(lines) == 1 and all(w in lines[0] for w in words), lines
    assert not list(tmp_path.iterdir())


def test_a_dry_run_prints_the_plan_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(Path(__file__).parent.parent.parent)
    out = tmp_path / "out"
    file = tmp_path / "dgx1.json"
    file.write_text('{"nodes": 2, "cores_per_node": 20, "threads_per_core": 2, "gpus_per_node": 4}')
    argv = [SMALL, "--dry-run", "--machine", str(file), "--gpus", "0-7", "--gpus-per-run", "2", "--out", str(out)]
    assert sweep.main(argv) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "   0  0-1      0     0,5          1-4,6-9,41-44,46-49 (idle beside the reserved: 40,45)" in lines
    assert "4 runs of 2 GPUs, 10 cores, 4 at the same time:" in lines and not out.exists()
    assert sum(n in line for n in (*NAMES, "envs=8,seed=1") for line in lines) == 4


def test_a_run_with_several_gpus_has_a_rank_on_each():
    config = grids.cartpole()
    assert on_gpus(config, 0) == on_gpus(config, 1) == config
    two = on_gpus(config, 2).distributed
    assert (two.ranks, two.gpus) == (2, "0,1")
    four = replace(config, distributed=replace(config.distributed, ranks=4))
    assert on_gpus(four, 2).distributed.gpus == "0,1" and on_gpus(four, 0).distributed.gpus == ""
    with pytest.raises(ConfigError, match="2 ranks cannot use 4 GPUs"):
        on_gpus(replace(config, distributed=replace(config.distributed, ranks=2)), 4)
    with pytest.raises(ConfigError, match="--envs 4"):
        on_gpus(config, 8)


@pytest.mark.slow
def test_ranks_take_the_cores_of_their_slot(tmp_path):
    """A run of two ranks in one slot is killed once and retried, and has the same result as an uninterrupted run."""
    argv = ["tests.sweeps.grids:long", "--only", "envs=4", "seed=0", "--cores-per-run", len(hardware.allowed_cores())]
    more = ["--override", "distributed.ranks=2", "env-steps=1200"]
    assert run(*argv, *more, "--out", tmp_path / "whole").returncode == 0
    process = start(*argv, *more, "--out", tmp_path / "cut")
    victim = tmp_path / "cut" / NAMES[0]
    wait_for(lambda: progressed(victim, 2))
    os.kill(json.loads((tmp_path / "cut" / "state.json").read_text())[NAMES[0]]["pid"], signal.SIGKILL)
    _, err = process.communicate(timeout=250)
    assert process.returncode == 0 and "killed by SIGKILL" in err, err
    assert_equal(tmp_path / "whole", tmp_path / "cut", NAMES[:1])


def test_a_child_of_another_parent_leaves_at_once():
    with pytest.raises(SystemExit) as e:
        child([str(os.getpid()), "", "nowhere"])  # os.getpid() is the id of this process, not of its parent.
    assert e.value.code == 128 + signal.SIGTERM


def test_progress_is_the_last_whole_row(tmp_path):
    assert read_progress(tmp_path).env_steps == 0
    file = tmp_path / "metrics.csv"
    file.write_text("env_steps,score,steps_per_s\n")
    assert read_progress(tmp_path).env_steps == 0
    file.write_text("env_steps,score,steps_per_s\n100,,5\n200,1.5,50\n30")
    p = read_progress(tmp_path)
    assert (p.env_steps, p.score, p.steps_per_s) == (200, 1.5, 50)


def test_slurm_without_its_extra_says_how_to_install_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "submitit", None)
    assert sweep.main([SMALL, "--slurm", "--out", str(tmp_path / "out")]) == 2
    assert "pip install 'accel_rl[slurm]'" in capsys.readouterr().err and not (tmp_path / "out").exists()


@pytest.mark.slow
def test_earlier_checkpoints_of_finished_runs_are_pruned(whole, tmp_path, capsys):
    folder = shutil.copytree(whole, tmp_path / "sweep")
    of_runs = {name: Checkpoints(folder / name / "checkpoints") for name in NAMES}
    unfinished, *finished = NAMES
    of_runs[unfinished].remove(of_runs[unfinished].steps()[-1:])
    before = {name: checkpoints.steps() for name, checkpoints in of_runs.items()}
    assert sweep.main(["--prune", str(folder), "--dry-run"]) == 0
    listed = capsys.readouterr().out
    assert {name: checkpoints.steps() for name, checkpoints in of_runs.items()} == before
    assert sweep.main(["--prune", str(folder)]) == 0
    assert capsys.readouterr().out.splitlines()[:-1] == listed.splitlines()[:-1]
    assert of_runs[unfinished].steps() == before[unfinished]
    for name in finished:
        assert of_runs[name].steps() == before[name][-1:] and len(before[name]) > 1
    assert_equal(folder, whole, finished)
    with SweepFolder(folder).locked():
        assert sweep.main(["--prune", str(folder)]) == 2 and "is in use by" in capsys.readouterr().err
