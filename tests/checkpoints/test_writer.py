"""CheckpointWriter: a thread writes a checkpoint while training continues."""

import threading
import time
from concurrent.futures import Future

import pytest
import torch

from accel_rl.checkpoints import checkpoint, writer
from accel_rl.checkpoints.checkpoint import Checkpoints, load
from accel_rl.checkpoints.tensor_file import Segment
from accel_rl.checkpoints.writer import AHEAD, CheckpointWriter
from accel_rl.text.errors import ConfigError, RunError


@pytest.fixture
def checkpoints(tmp_path):
    return Checkpoints(tmp_path / "checkpoints")


@pytest.fixture
def slow_disk(monkeypatch):
    """An event that must be set before any file of a checkpoint is written."""
    ready, write = threading.Event(), checkpoint.write_synced
    monkeypatch.setattr(checkpoint, "write_synced", lambda *args: ready.wait(20) and write(*args))
    yield ready
    ready.set()


def until_complete(writing):
    deadline = time.monotonic() + 20
    while not writing.step():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_the_state_may_change_while_it_is_written(checkpoints, slow_disk):
    state = {"weights": torch.zeros(4), "counts": [1, {"b": 2, "a": torch.ones(2).numpy()}], "bytes": b"abc"}
    times = {"wall_s": 1.5, "activities": {"acting": 2.0}}
    writing = CheckpointWriter(checkpoints, 10, state, times)
    times["activities"]["learning"] = 1.0
    state["weights"].fill_(7)
    state["counts"][1]["a"][:] = 7
    state["counts"][0] = 7
    assert not writing.step() and not checkpoints.steps()
    slow_disk.set()
    until_complete(writing)
    got = load(writing.path)
    assert got["weights"].eq(0).all() and got["counts"][0] == 1 and (got["counts"][1]["a"] == 1).all()
    assert got["bytes"] == b"abc" and got["time"] == {"wall_s": 1.5, "activities": {"acting": 2.0}}
    files = {p.name: p.read_bytes() for p in writing.path.iterdir()}
    checkpoints.save(
        10, {"weights": torch.zeros(4), "counts": [1, {"b": 2, "a": torch.ones(2).numpy()}], "bytes": b"abc"}
    )
    assert all((writing.path / n).read_bytes() == files[n] for n in ("state.json", "state.safetensors"))


def segments(n, threads):
    def load(i):
        threads.append((i, threading.current_thread()))
        return {"rows": torch.full((3,), float(i))}

    return [Segment(f"rows-{i:02d}", lambda i=i: load(i)) for i in range(n)]


def test_segments_are_read_by_the_caller_and_few_ahead(checkpoints, slow_disk, monkeypatch):
    threads, stored = [], []
    monkeypatch.setattr(
        checkpoints.segments, "put", lambda segment: slow_disk.wait(20) and stored.append(segment.load())
    )
    writing = CheckpointWriter(checkpoints, 10, {"replay": {"z": segments(30, threads), "a": 1}})
    assert not threads
    assert not writing.step() and len(threads) == AHEAD
    slow_disk.set()
    writing.finish()
    assert [i for i, _ in threads] == [int(s["rows"][0]) for s in stored] == list(range(30))
    assert {thread for _, thread in threads} == {threading.current_thread()}


def test_segments_on_disk_are_not_read_again(checkpoints):
    threads = []
    known = segments(3, threads)
    CheckpointWriter(checkpoints, 10, {"s": known}).finish()
    CheckpointWriter(checkpoints, 20, {"s": [*known, *segments(5, threads)[3:]]}).finish()
    assert [i for i, _ in threads] == [0, 1, 2, 3, 4]
    back = load(checkpoints.path(20))["s"]
    assert [float(s.load()["rows"][0]) for s in back] == [0, 1, 2, 3, 4]


def test_an_error_of_the_disk_is_raised_in_the_callers_thread(checkpoints, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_synced", full)
    writing = CheckpointWriter(checkpoints, 10, {"segments": segments(3 * AHEAD, [])})
    with pytest.raises(RunError, match="No space left"):
        writing.finish()
    with pytest.raises(RunError, match="No space left"):
        writing.step()
    assert not checkpoints.steps()


def test_a_failure_at_the_end_of_a_step_is_raised_by_the_next(checkpoints):
    """An error of the writing thread during a call of step() is raised by the next call of step()."""
    writing = CheckpointWriter(checkpoints, 10, {})
    writing.finish()

    class Failing(Future):
        looks = 0

        def done(self):
            self.looks += 1
            return self.looks > 1

    writing._done = Failing()
    writing._done.set_exception(RunError("No space left"))
    outcomes = []
    with pytest.raises(RunError, match="No space left"):
        while len(outcomes) < 5:
            outcomes.append(writing.step())
    assert outcomes and not any(outcomes)


def test_a_value_that_cannot_be_saved_is_one_line(checkpoints):
    with pytest.raises(ConfigError, match="state x/0 is a set"):
        CheckpointWriter(checkpoints, 10, {"x": [{1}]}).finish()
    with pytest.raises(ConfigError, match="key"):
        CheckpointWriter(checkpoints, 10, {"x": {(1, 2): 0, "b": 1}}).finish()


def test_an_abandoned_checkpoint_leaves_no_thread_and_no_file(checkpoints):
    writing = CheckpointWriter(checkpoints, 10, {"segments": segments(3, [])})
    writing.abandon()
    assert not [t for t in threading.enumerate() if t.name == "checkpoint"]
    assert not checkpoints.steps() and not [*checkpoints.folder.glob("*")]


def test_an_error_while_a_segment_is_read_ends_the_thread(checkpoints):
    def broken():
        raise RuntimeError("the GPU is lost")

    writing = CheckpointWriter(checkpoints, 10, {"segments": [Segment("rows", broken)]})
    with pytest.raises(RuntimeError, match="GPU"):
        writing.finish()
    writing.abandon()
    assert not checkpoints.steps()
    assert writer.LOOK_S < 1
