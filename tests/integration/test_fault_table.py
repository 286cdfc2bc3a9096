"""Each row of the table "What ends a run" in docs/faults.md is true: the faults are caused with each engine, or by the
tests in ELSEWHERE."""

import json
import os
import re
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from accel_rl.algos.a2c import A2C
from accel_rl.distributed.all_reduce import compare_ranks
from accel_rl.optim.flat import FlatParameters
from accel_rl.text.errors import RunError
from tests.integration.runs import run
from tests.marks import slow

ROOT = Path(__file__).parents[2]
ENGINES = {"workers": ("--workers", 1), "in-process": ()}
SMALL = (
    *("--envs", 2, "--horizon", 5, "--env-steps", 400, "--decorrelation-steps", 0, "--torch-threads", 1),
    *("--evaluation.interval", 0),
)
HERE = f"{__name__}:"


def rows() -> dict[str, str]:
    """Return the table of docs/faults.md as {what ends a run: message}."""
    section = (ROOT / "docs/faults.md").read_text().partition("## What ends a run\n")[2].partition("\n## ")[0]
    cells = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return {what.strip(): message.partition("`")[2].partition("`")[0] for what, message in cells[1:]}


class Exits(A2C):
    def loss(self, batch):
        sys.exit("enough")


class Dies(A2C):
    def ingest(self, rollout):
        os.kill(os.getpid(), signal.SIGKILL)


def ending(call, code):
    return ("a2c", "--env", "tests.environments:ending", "--env.kwargs", f'{{"call": "{call}", "code": {code}}}')


HERE_ROWS = {
    "the environment raises an exception": [
        ("a2c", "--env", "tests.environments:failing"),
        ("a2c", "--env", "tests.environments:of_wrong_shape"),
        ending("sys.exit", 0),
        ending("sys.exit", 3),
        ending("os._exit", 0),
    ],
    "the algorithm, the network or a callback calls `sys.exit`": [(f"{HERE}Exits", "--env", "CartPole-v1")],
    "20 consecutive updates": [("a2c", "--env", "tests.environments:without_a_reward", "--checkpoint.interval", 50)],
}
PROGRAMS = [(row, program) for row, programs in HERE_ROWS.items() for program in programs]
QUICK = [ending("os._exit", 0), *HERE_ROWS["20 consecutive updates"]]
ELSEWHERE = {
    "`--strict`, and a worker dies": ("integration/test_faults.py", "test_strict_stops_with_an_error"),
    "a worker dies three times": (
        "samplers/workers/test_pool.py",
        "test_a_worker_that_never_starts_ends_the_run_in_a_line",
    ),
    "a worker dies ten times": (
        "samplers/workers/test_environment_errors.py",
        "test_a_worker_that_dies_in_every_rollout_ends_the_run",
    ),
    "an environment's function blocks": ("envs/test_inspection.py", "test_a_factory_that_fails_ends_in_one_line"),
    "a worker does not start": (
        "samplers/workers/test_pool.py",
        "test_a_worker_that_never_starts_ends_the_run_in_a_line",
    ),
    "the GPU fails": ("gpu/test_failed_replay.py", "test_the_run_ends_and_is_resumed"),
    "the disk is full": ("checkpoints/test_checkpoint.py", "test_a_full_disk_leaves_the_earlier_ones_whole"),
    "the run folder is moved": (
        "integration/test_run_folder_faults.py",
        "test_a_run_whose_folder_is_moved_saves_in_the_new_place_and_ends",
    ),
    "the run folder is removed": ("integration/test_run_folder_faults.py", "test_a_run_whose_folder_is_removed_ends"),
    "a synchronous rank is killed": (
        "integration/test_ranks.py",
        "test_a_killed_rank_stops_a_synchronous_run_and_is_named",
    ),
    "a synchronous rank is suspended": ("integration/test_ranks.py", "test_a_suspended_rank_does_not_delay_a_stop"),
    "the file system of the run folder cannot rename": (
        "files/test_file_system.py",
        "test_a_run_without_renames_is_refused_and_leaves_nothing",
    ),
    "a host is lost": ("distributed/test_patient_store.py", "test_a_call_ends"),
    "a synchronous rank hangs for": ("integration/test_ranks.py", "test_a_rank_that_hangs_is_named"),
    "a synchronous rank hangs while another rank's GPU": (
        "gpu/test_ranks.py",
        "test_a_lost_rank_in_a_captured_update_ends_the_run",
    ),
    "parameters of synchronous ranks differ": (
        "integration/test_fault_table.py",
        "test_ranks_whose_parameters_differ_are_named",
    ),
    "under torchrun": ("integration/test_ranks.py", "test_torchrun_ends_when_an_asynchronous_rank_is_stopped"),
    "an asynchronous rank dies three times": (
        "integration/test_fault_table.py",
        "test_an_asynchronous_rank_that_never_samples_ends_the_run",
    ),
    "Gorila, or ranks on a Ray cluster": ("gorila/test_gorila.py", "test_a_killed_ray_agent_ends_the_run_in_one_line"),
    "an open file or the shared memory": ("run/test_run_folder.py", "test_a_run_that_is_refused_late_leaves_no_folder"),
    "a limit of threads, processes or memory": ("text/test_errors.py", "test_a_limit_is_one_line"),
    "Ctrl-C, SIGTERM": ("integration/test_faults.py", "test_ctrl_c_to_the_whole_group_saves_and_ends"),
}
"""Maps the other rows of the table to (test file, name of the test that causes the fault)."""


def test_every_row_is_executed():
    known = [*HERE_ROWS, *ELSEWHERE]
    assert [what for what in rows() if sum(what.startswith(start) for start in known) != 1] == []
    assert [start for start in known if not any(what.startswith(start) for what in rows())] == []
    for file, name in ELSEWHERE.values():
        assert f"def {name}(" in (ROOT / "tests" / file).read_text(), name


def matches(row, text):
    """Whether the text contains the message of a row, where numbers may differ, and "..." stands for any text."""
    message = next(message for what, message in rows().items() if what.startswith(row))
    parts = [re.sub(r"\d+", r"\\d+", re.escape(part)) for part in message.removesuffix("...").split("...")]
    return re.search(".+".join(parts), text)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("row", "program"),
    [case if case[1] in QUICK else slow(*case) for case in PROGRAMS],
    ids=lambda x: x if isinstance(x, str) else " ".join(map(str, x)),
)
def test_a_run_ends_as_its_row_says(tmp_path, row, program, engine):
    done = run("train", *program, "--engine", engine, *ENGINES[engine], *SMALL, "--run-dir", tmp_path / "run")
    assert done.returncode == 1 and matches(row, done.stderr) and "Traceback" not in done.stderr, done.stderr
    if "tests.environments:ending" in program:
        call, code = json.loads(program[-1]).values()
        assert f"its code called {call}({code})" in done.stderr


@pytest.mark.slow
def test_an_asynchronous_rank_that_never_samples_ends_the_run(tmp_path):
    ranks = ("--ranks", 2, "--update", "async", "--engine", "in-process", "--run-dir", tmp_path / "run")
    done = run("train", f"{HERE}Dies", "--env", "CartPole-v1", *SMALL, *ranks)
    assert done.returncode == 1 and matches("an asynchronous rank dies three times", done.stderr), done.stderr


def test_ranks_whose_parameters_differ_are_named():
    communicator = SimpleNamespace(gather=lambda mine: [mine, ["another"], mine])
    with pytest.raises(RunError) as error:
        compare_ranks(FlatParameters(torch.nn.Linear(2, 2)), communicator, updates=7)
    assert matches("parameters of synchronous ranks differ", str(error.value))
