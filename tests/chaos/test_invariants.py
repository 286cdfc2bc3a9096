"""The checks of invariants.py report lost checkpoints, wrong files, and processes that a trial leaves behind."""

import mmap
import random
import subprocess
import tempfile

import pytest

from tests.chaos import invariants, leftovers
from tests.chaos.invariants import Violation
from tests.chaos.modes import MODES
from tests.chaos.trial import Trial


def trial_with(folder, *steps, checkpoints=(), mode="ppo", reference=None):
    """Return a trial whose run has rows of metrics.csv at the env steps `steps`, and checkpoints at the env steps
    `checkpoints`."""
    t = Trial(MODES[mode], folder, random.Random(0), reference)
    for step in checkpoints:
        (t.run / "checkpoints" / f"{step:012d}").mkdir(parents=True)
        (t.run / "checkpoints" / f"{step:012d}" / "MANIFEST.json").write_text("{}")
    t.run.mkdir(exist_ok=True)
    (t.run / "metrics.csv").write_text("env_steps\n" + "".join(f"{step}\n" for step in steps))
    return t


def test_a_checkpoint_is_due_at_the_first_row_after_its_interval_unless_it_is_the_last():
    assert invariants.due([]) == 0 and invariants.due([80, 400]) == 0
    assert invariants.due([80, 400, 480]) == 400 and invariants.due([160, 320, 480, 640, 800]) == 480


def test_the_last_checkpoint_may_be_incomplete_if_it_is_written_in_the_background():
    assert invariants.due([80, 400, 480], True) == 0 and invariants.due([160, 320, 480, 640, 800, 960], True) == 480
    assert invariants.due([], True) == 0


def test_lost_env_steps_are_found(tmp_path):
    t = trial_with(tmp_path / "a", *range(80, 1_000, 80), checkpoints=[400])
    with pytest.raises(Violation, match="560 env steps: the newest checkpoint is at 400, the last row at 960") as lost:
        t.check_progress()
    assert lost.value.kind == "lost"
    t = trial_with(tmp_path / "b", *range(80, 1_000, 80), checkpoints=[400, 800])
    t.check_progress()
    assert t.lost_steps == 160
    with pytest.raises(Violation, match=r"160 env steps: .* a stop saves all"):
        t.check_progress(is_stop=True)


def test_a_rank_without_its_part_is_found(tmp_path):
    t = trial_with(tmp_path / "a", 80, 400, 480, checkpoints=[400], mode="ranks")
    (t.run / "ranks" / "1" / "checkpoints").mkdir(parents=True)
    with pytest.raises(Violation, match="1: the rank's part of the checkpoint at 400 is missing"):
        t.check_progress()


def test_a_resume_from_an_older_checkpoint_is_found(tmp_path):
    t = trial_with(tmp_path / "a", 80, 400, 480, 800, checkpoints=[400, 800])
    t._from = 800
    (t.run / "events.log").write_text("2026-11-28 12:00:00 resumed at 400 env steps\n")
    with pytest.raises(Violation, match="resumed at 400 env steps, with a checkpoint at 800"):
        t.check_progress()


def test_a_lost_run_is_found(tmp_path):
    t = trial_with(tmp_path / "a", 80, 160, checkpoints=[1_600])
    with pytest.raises(Violation, match="ends at 160 of 1600") as lost:
        invariants.check_end(t)
    assert lost.value.kind == "lost"
    (t.run / "metrics.csv").write_text("env_steps\n160\n80\n")
    with pytest.raises(Violation, match="not ascending"):
        invariants.check_end(t)
    (t.leftovers.outside / "rows-0000000000000001.safetensors").unlink()
    with pytest.raises(Violation, match="outside the run folder"):
        invariants.check_surroundings(t)


@pytest.mark.parametrize("name", ["checkpoints/000000001600/state.json", "evaluations/000000000320.json", "best"])
def test_any_file_that_differs_is_found(tmp_path, name):
    a = trial_with(tmp_path / "a", 800, 1_600, checkpoints=[1_600])
    b = trial_with(tmp_path / "b", 800, 1_600, checkpoints=[1_600], reference=a.run)
    invariants.check_end(b)
    file = b.run / ("best/checkpoints/000000000320/MANIFEST.json" if name == "best" else name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("{}")
    with pytest.raises(Violation, match=f"{name}.* is new, compared with the undisturbed run"):
        invariants.check_end(b)


def test_a_process_that_remains_is_found(tmp_path, monkeypatch):
    t = trial_with(tmp_path / "trial")
    process = subprocess.Popen(["sleep", "60"], env={"ACCEL_RL_CHAOS": t.leftovers.mark, "PATH": "/usr/bin:/bin"})
    clock = iter(range(0, 1_000, 6))
    monkeypatch.setattr("tests.chaos.leftovers.time.monotonic", lambda: next(clock))
    with pytest.raises(Violation, match=r"left behind: .* sleep 60"):
        invariants.check_surroundings(t)
    t.leftovers.kill()
    assert process.wait(10) == -9


def test_a_name_in_shared_memory_is_found_unless_it_is_another_programs(tmp_path, monkeypatch):
    left = leftovers.Leftovers(tmp_path / "outside")
    clock = iter(range(0, 1_000, 6))
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        file.write(b"rollouts")
        file.flush()
        monkeypatch.setattr("tests.chaos.leftovers.time.monotonic", lambda: next(clock))
        assert left.wait() == [file.name]
        with mmap.mmap(file.fileno(), 0):
            assert left.wait() == []
