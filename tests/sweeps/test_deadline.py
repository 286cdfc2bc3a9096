"""Which runs a sweep with --minutes starts and stops, and killed sweeps that are continued from the files of
--carry."""

import json
import os
import signal
import stat
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

import accel_rl
from accel_rl.checkpoints import checkpoint
from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.checkpoints.model_folder import ModelFolder
from accel_rl.machine import hardware
from accel_rl.machine.machine import Machine, Node
from accel_rl.machine.placement import Slot
from accel_rl.sweeps import mps, sweep_loop
from accel_rl.sweeps import sweep_command as sweep
from accel_rl.sweeps.carried import Carried
from accel_rl.sweeps.deadline import Deadline
from accel_rl.sweeps.feeder import Feeder, Running
from accel_rl.sweeps.layout import Layout, Needs, Size
from accel_rl.sweeps.pace import read_pace
from accel_rl.sweeps.sweep_display import View
from accel_rl.sweeps.sweep_display import main as status
from accel_rl.sweeps.sweep_folder import SweepFolder
from accel_rl.sweeps.sweep_plan import PlannedRun
from tests.integration.runs import checkpoint_bytes, progressed, rows, wait_for
from tests.integration.runs import run as run_module
from tests.integration.runs import start as start_module
from tests.sweeps import grids

PAIR, UNEVEN = "tests.sweeps.grids:pair", "tests.sweeps.grids:uneven"
start, run = partial(start_module, module="launch.sweep"), partial(run_module, module="launch.sweep")
ONE_CORE = ("--gpus", "none", "--cores", str(hardware.allowed_cores()[0]))
COLUMNS = "env_steps,updates,steps_per_s,wall_s,eval_score\n"


def states(folder: Path) -> dict[str, str]:
    return {n: r["status"] for n, r in json.loads((folder / "state.json").read_text()).items()}


def write_rows(run_dir: Path, text: str, env_steps: int = 0, host: tuple[str, int, int] | None = None) -> None:
    cpu, cores, gpus = host or (hardware.cpu_name(), 1, 0)
    launch = {"env_steps": env_steps, "cpu": cpu, "cores": cores, "gpus": ["GPU"] * gpus}
    (run_dir / "launches.json").write_text(json.dumps([launch]))
    (run_dir / "metrics.csv").write_text(COLUMNS + text)


def test_the_pace_counts_neither_evaluations_nor_the_start(tmp_path):
    assert read_pace(tmp_path, 0.0) is None
    # Rows of metrics.csv: a slow start, random steps that fill a replay, and then an evaluation of 30 s.
    slow, random, warm = "1000,5,100,10,\n", "2000,0,9000,20,\n", "3000,9,100,60,1.5\n4000,9,200,65,\n"
    write_rows(tmp_path, slow + random + warm)
    pace = read_pace(tmp_path, 15.0)
    assert (pace.env_steps, pace.rate, pace.evaluation_s) == (4000, pytest.approx(2000 / 15), 30.0)
    assert read_pace(tmp_path, 62.0).rate == 200
    write_rows(tmp_path, slow + random + warm, env_steps=3000)  # resumed
    assert read_pace(tmp_path, 0.0).rate == 200 and read_pace(tmp_path, 0.0).wall_s == 5
    write_rows(tmp_path, slow + random)
    assert read_pace(tmp_path, 15.0).rate != read_pace(tmp_path, 15.0).rate
    write_rows(tmp_path, slow + "20")  # An incomplete last line of metrics.csv does not count.
    assert read_pace(tmp_path, 0.0).env_steps == 1000


def fresh(tmp_path: Path, lengths: dict[str, int], slots: list[Slot], interval: int = 0) -> tuple[SweepFolder, Layout]:
    """Create the folder of a sweep, whose runs differ in name, length and seed. Returns the folder and the layout."""
    size = Size(len(slots[0].gpus), 0 if slots[0].gpus else 1)
    config = grids.cartpole()
    evaluation = replace(config.evaluation, interval=interval)
    runs = {
        name: PlannedRun(replace(config, env_steps=n, seed=i, evaluation=evaluation), Needs(1, 1), size)
        for i, (name, n) in enumerate(lengths.items())
    }
    folder = SweepFolder(tmp_path / "sweep")
    folder.path.mkdir()
    folder.create(runs, {name: {} for name in runs}, {})
    node = Node(tuple((c,) for c in range(8)), (0,))
    return folder, Layout(Machine((node,)), {name: size for name in runs}, {size: slots})


ONE = [Slot((0,))]


def test_runs_that_can_finish_are_planned_in_the_order_of_the_grid(tmp_path):
    """Runs make 100 env steps/s, and need 10 s for start and end. 108 s remain until the deadline."""
    folder, layout = fresh(
        tmp_path, {"done": 1000, "long": 20_000, "first": 4_000, "second": 6_000, "third": 3_000}, ONE
    )
    write_rows(folder.run("done"), "1000,9,100,2,\n")
    assert Deadline(folder, layout, 2.0, time.time(), {}).plan(["first"])[1].endswith("its rate is measured")
    (folder.run("done") / "checkpoints" / f"{1000:012d}").mkdir(parents=True)
    deadline = Deadline(folder, layout, 2.0, time.time(), {})
    assert deadline.rate("first") == 100 and deadline.needed_s("second") == 70
    plan = deadline.plan(["long", "first", "second", "third"])
    assert plan == [
        "1:48 to train, 0:12 for the last checkpoints and packing:",
        "  long: does not start: it needs 3:30",
        "  first: starts at 0:00, ends at 0:50",
        "  second: does not start: it needs 1:10, and no slot is free in time",
        "  third: starts at 0:50, ends at 1:30",
    ]


def test_evaluations_and_earlier_checkpoints_count(tmp_path):
    folder, layout = fresh(tmp_path, {"done": 1000, "next": 4_000}, ONE, interval=1_500)
    write_rows(folder.run("done"), "1000,9,100,17,2.0\n")
    (folder.run("done") / "checkpoints" / f"{1000:012d}").mkdir(parents=True)
    assert Deadline(folder, layout, 2.0, time.time(), {}).needed_s("next") == 10 + 40 + 3 * 7
    (folder.run("next") / "checkpoints" / f"{2000:012d}").mkdir(parents=True)
    assert Deadline(folder, layout, 2.0, time.time(), {}).needed_s("next") == 10 + 20 + 2 * 7


def test_the_rate_of_another_host_does_not_count(tmp_path):
    folder, layout = fresh(tmp_path, {"done": 1000, "next": 4_000}, ONE)
    (folder.run("done") / "checkpoints" / f"{1000:012d}").mkdir(parents=True)
    for host in (("another CPU", 1, 0), (hardware.cpu_name(), 3, 0), (hardware.cpu_name(), 1, 1)):
        write_rows(folder.run("done"), "1000,9,100,10,\n", host=host)
        deadline = Deadline(folder, layout, 2.0, time.time(), {})
        assert deadline.rate("next") != deadline.rate("next")
        assert deadline.plan(["next"])[1] == "  next: starts at 0:00, its rate is measured"
    assert Deadline(folder, layout, 2.0, time.time(), {"a2c": 50.0}).needed_s("next") == 10 + 80
    # 6 s until the deadline are too short to measure a run's rate.
    assert not Deadline(folder, layout, 0.2, time.time(), {})._fits("next")


class Stopping(Feeder):
    """A Feeder whose running runs are given, and which records the runs that it is asked to stop."""

    def __init__(self, folder: SweepFolder, layout: Layout, slots: dict[str, Slot]):
        super().__init__(folder, layout, View(folder).lengths, 0, 0)
        self.stopped: list[str] = []
        for name, slot in slots.items():
            self.waiting.remove(name)
            self.running[name] = Running(name, slot, None)  # type: ignore[arg-type]
            folder.note(name, status="running", attempts=1, started=time.time() - 60)

    def end(self, name: str, status: str) -> None:
        self.stopped.append(name)
        del self.running[name]
        self.folder.note(name, status=status)


def looked(deadline: Deadline, feeder: Feeder) -> None:
    deadline._read_at = deadline._gave_up_at = -1e9
    deadline.step(feeder)


def test_a_slow_run_is_stopped_only_for_a_run_that_can_finish(tmp_path):
    folder, layout = fresh(tmp_path, {"slow": 100_000, "long": 90_000, "short": 3_000}, ONE)
    feeder = Stopping(folder, layout, {"slow": ONE[0]})
    deadline = Deadline(folder, layout, 2.0, time.time(), {})
    looked(deadline, feeder)
    assert not feeder.stopped and not feeder.held  # nothing is known yet
    write_rows(folder.run("slow"), "1000,9,100,10,\n")
    feeder.waiting.remove("short")
    looked(deadline, feeder)
    assert not feeder.stopped and feeder.held == {"long"}
    feeder.waiting.append("short")
    looked(deadline, feeder)
    assert feeder.stopped == ["slow"] and feeder.held == {"long"}
    lines = deadline.outcome()
    assert lines[0].startswith("  slow: stopped: it needed 14:") and lines[1].startswith(
        "  long: not begun: it needs 15:"
    )


def test_late_runs_that_share_a_gpu_are_stopped_one_by_one_from_the_last(tmp_path):
    """If several runs on a GPU are too slow, only the last in the grid is stopped, because the others then get
    faster."""
    slots = [Slot((2 * i, 2 * i + 1), (0,)) for i in range(4)]
    names = ["a", "b", "c", "d"]
    folder, layout = fresh(tmp_path, dict.fromkeys(names, 20_000), slots)
    feeder = Stopping(folder, layout, dict(zip(names, slots, strict=True)))
    deadline = Deadline(folder, layout, 2.0, time.time(), {})
    for name, rate in zip(names, (100, 100, 100, 1000), strict=True):
        write_rows(folder.run(name), f"1000,9,{rate},10,\n")
    looked(deadline, feeder)
    assert feeder.stopped == ["c"]
    deadline._read_at = -1e9
    deadline.step(feeder)
    # Before the next run is stopped, rates are measured again.
    assert feeder.stopped == ["c"]
    looked(deadline, feeder)
    looked(deadline, feeder)
    assert feeder.stopped == ["c", "b"] and set(feeder.running) == {"a", "d"}


@pytest.fixture
def control(tmp_path, monkeypatch):
    """A function that installs a stand-in for nvidia-cuda-mps-control, which records its calls."""

    def install(is_running: bool = False, starts: bool = True) -> Path:
        program, log, flag = tmp_path / "bin" / mps.CONTROL, tmp_path / "calls", tmp_path / "running"
        program.parent.mkdir()
        if is_running:
            flag.touch()
        started = f"touch {flag}; (sleep 5 & )" if starts else "echo 'MPS is not supported' >&2; exit 1"
        program.write_text(
            f"""#!/bin/sh
if [ "$1" = -d ]; then echo start >> {log}; {started}
else read line; echo "$line" >> {log}; [ -e {flag} ] || exit 1; [ "$line" = quit ] && rm {flag}; exit 0
fi
"""
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
        return log

    return install


def test_mps_is_started_for_runs_that_share_a_gpu_and_ended_after_them(tmp_path, control):
    _, layout = fresh(tmp_path, {"a": 100, "b": 100}, [Slot((0, 1), (0,)), Slot((2, 3), (0,))])
    log, said = control(), []
    with mps.shared_gpus(layout, said.append):
        assert log.read_text().split() == ["get_server_list", "start"]
    assert log.read_text().split() == ["get_server_list", "start", "quit"]
    assert said == ["started CUDA's Multi-Process Service for the runs that share a GPU"]
    log.unlink()
    for slots in ([Slot((0, 1), (0,)), Slot((2, 3), (1,))], [Slot((0,)), Slot((1,))]):
        with mps.shared_gpus(replace(layout, slots={Size(1): slots}), said.append):
            assert not log.exists() and len(said) == 1


@pytest.mark.parametrize(("mps", "calls"), [(True, ["get_server_list", "start", "quit"]), (False, [])])
def test_a_sweep_starts_mps_unless_it_is_told_not_to(mps, calls, tmp_path, control):
    folder, layout = fresh(tmp_path, {}, [Slot((0, 1), (0,)), Slot((2, 3), (0,))])
    log = control()
    folder.load_records()
    with folder.locked() as lock:
        assert sweep_loop.run(folder, layout, sweep.SweepOptions(mps=mps), lock) == 0
    assert (log.read_text().split() if log.exists() else []) == calls


@pytest.mark.parametrize(
    ("state", "calls", "line"),
    [
        ({"is_running": True}, ["get_server_list"], "CUDA's Multi-Process Service is running already"),
        ({"starts": False}, ["get_server_list", "start"], "cannot be started (MPS is not supported)"),
        (None, [], "nvidia-cuda-mps-control (CUDA's Multi-Process Service) is not installed"),
    ],
)
def test_the_sweep_goes_on_without_starting_mps(state, calls, line, tmp_path, control, monkeypatch):
    _, layout = fresh(tmp_path, {"a": 100}, [Slot((0, 1), (0,)), Slot((2, 3), (0,))])
    said: list[str] = []
    log = control(**state) if state is not None else tmp_path / "calls"
    if state is None:
        monkeypatch.setenv("PATH", str(tmp_path))
    with mps.shared_gpus(layout, said.append):
        pass
    assert (log.read_text().split() if log.exists() else []) == calls
    assert len(said) == 1 and line in said[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--minutes", "-1"], ["--minutes -1: must be above 0"]),
        (["--minutes", "0"], ["--minutes 0: must be above 0"]),
        (["--minutes", "nan"], ["--minutes nan: must be a number"]),
        (["--minutes", "x"], ["--minutes 'x': must be a number"]),
        (["--minutes", "1", "--slurm"], ["leave out --slurm"]),
        (["--carry", "file"], ["--carry file: cannot be written: File exists"]),
        (["--carry", "/proc/out"], ["--carry /proc/out: cannot be written"]),
        (["--carry", "out", "--carry-mb", "0"], ["--carry-mb 0: must be at least 1"]),
        (["--carries", "out"], ["--carries", "--carry"]),
    ],
)
def test_bad_input_is_one_line_and_starts_nothing(options, words, tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(os.getcwd())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    assert sweep.main([PAIR, *options]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and all(w in lines[0] for w in words), lines
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_dry_run_prints_the_choice_and_writes_nothing(tmp_path, capsys):
    argv = [PAIR, "--dry-run", "--minutes", "1", "--out", str(tmp_path / "sweep"), "--carry", str(tmp_path / "out")]
    assert sweep.main([*argv, *ONE_CORE, "--rate", "a2c=80"]) == 0
    out = capsys.readouterr().out
    assert "0:48 to train, 0:12 for the last checkpoints and packing:" in out
    assert "  seed=0: starts at 0:00, ends at 0:40" in out and "  seed=1: does not start: it needs 0:40" in out
    assert not list(tmp_path.iterdir())


# -- real sweeps ------------------------------------------------------------


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory) -> Path:
    """The runs of the grid `pair`, trained without interruptions. Interrupted sweeps must have equal results."""
    folder = tmp_path_factory.mktemp("ordinary")
    for member in grids.pair().members:
        accel_rl.train(member.config, run_dir=folder / member.name)
    return folder


def assert_equal(folder: Path, ordinary: Path, names: Sequence[str] = ("seed=0", "seed=1")) -> None:
    """Check that runs have the same rows of metrics and the same final network as the uninterrupted runs."""
    for name in names:
        assert rows(folder / name) == rows(ordinary / name)
        expected = checkpoint.load(Checkpoints(ordinary / name / "checkpoints").path(2_400))["learner"]["network"]
        if ModelFolder(folder / name).is_there:
            network = ModelFolder(folder / name).load()["learner"]["network"]
            assert all(torch.equal(network[key], x.half().float()) for key, x in expected.items())
        else:
            assert checkpoint_bytes(folder / name) == checkpoint_bytes(ordinary / name)


def is_packed(out: Path, name: str = "") -> bool:
    carried = Carried(out, 60_000_000)
    return any(item.is_finished and item.name == name for item in carried.items) if name else bool(carried.items)


@pytest.mark.slow
def test_a_stopped_sweep_continues_elsewhere_with_its_packed_checkpoints(ordinary, tmp_path):
    """After Ctrl-C, the same command with a new folder continues the sweep from the files of --carry."""
    out, one = tmp_path / "out", (PAIR, "--only", "seed=1", *ONE_CORE)
    process = start(*one, "--carry", out, "--out", tmp_path / "first")
    wait_for(lambda: progressed(tmp_path / "first" / "seed=1", 4))
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=100)
    assert process.returncode == 130, printed
    items = {item.name: item for item in Carried(out, 60_000_000).items}
    assert items and not any(item.is_finished for item in items.values())
    assert f"{out}: 0 finished runs and 1 checkpoint in 1 file" in printed
    done = run(*one, "--carry", out, "--out", tmp_path / "second")
    assert done.returncode == 0, done.stderr
    assert_equal(tmp_path / "second", ordinary, ["seed=1"])
    for name, item in items.items():  # The new sweep resumed from the packed checkpoint.
        *_, last = json.loads((tmp_path / "second" / name / "launches.json").read_text())
        assert last["env_steps"] == item.env_steps > 0
    assert is_packed(out, "seed=1")
    again = run(*one, "--carry", out, "--out", tmp_path / "third", "--minutes", "0.3")
    assert again.returncode == 0 and set(states(tmp_path / "third").values()) == {"done"}, again.stderr
    assert "1 of 1 run finished in 0:0" in again.stdout and "; 0 env steps" in again.stdout
    assert_equal(tmp_path / "third", ordinary, ["seed=1"])


@pytest.mark.slow
def test_a_run_that_cannot_finish_gives_its_slot_to_one_that_can(tmp_path):
    """On one core, the sweep stops the first run, which cannot finish, and does not begin the second, similar run.

    The short run finishes, and is copied to the folder of --carry. The sweep ends early, because no other run can
    finish.
    """
    out, folder, began = tmp_path / "out", tmp_path / "sweep", time.monotonic()
    done = run(UNEVEN, "--minutes", 3, "--carry", out, "--out", folder, *ONE_CORE)
    assert time.monotonic() - began < 150 and done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    first, twin, short = (next(x for x in lines if n in x) for n in ("envs=4,seed=0", "envs=4,seed=1", "envs=8,seed=0"))
    assert " of 10,000,000 env steps: it needed " in first and "stopped at" in first
    assert "not begun: it needs" in twin and "finished, 1,200 env steps" in short
    assert states(folder) == {"envs=4,seed=0": "stopped", "envs=4,seed=1": "waiting", "envs=8,seed=0": "done"}
    assert {(i.name, i.is_finished) for i in Carried(out, 60_000_000).items} == {
        ("envs=8,seed=0", True), ("envs=4,seed=0", False),
    }  # fmt: skip


@pytest.mark.slow
def test_the_deadline_is_kept(tmp_path, capsys):
    """Two runs that cannot finish train until 12 s before the deadline at most, and their checkpoints are then
    packed."""
    out, folder, began = tmp_path / "out", tmp_path / "sweep", time.monotonic()
    process = start(UNEVEN, "--only", "envs=4", "--minutes", 0.8, "--carry", out, "--out", folder, "--gpus", "none")
    wait_for(lambda: progressed(folder / "envs=4,seed=0", 2))
    assert 0 < SweepFolder(folder).deadline_s() < 48
    assert status([str(folder)]) == 0 and "to the deadline" in capsys.readouterr().out
    printed, err = process.communicate(timeout=100)
    assert 0.8 * 60 - 12 <= time.monotonic() - began <= 0.8 * 60 and process.returncode == 0, err
    for name, item in {item.name: item for item in Carried(out, 60_000_000).items}.items():
        assert f"{name}: stopped at {item.env_steps:,} of 10,000,000 env steps: the time was over" in printed
    assert set(states(folder).values()) == {"stopped"} and is_packed(out)
