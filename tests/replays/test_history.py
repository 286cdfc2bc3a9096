"""The frame ring of a replay is saved in checkpoints as segments of rows, and restored."""

import pytest
import torch

from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.checkpoints.writer import CheckpointWriter
from accel_rl.replays import replay as replay_module
from accel_rl.replays.replay import Replay
from accel_rl.replays.ring import FrameRing, NStep
from accel_rl.replays.uniform import Uniform
from tests.marks import slow
from tests.replays.made_up import Simulators
from tests.replays.test_ring import check

B, T, ROWS = 3, 5, 61


def empty(sims: Simulators, n: int = 3) -> Replay:
    ring = FrameRing(sims.spec, B, ROWS * B, NStep(n, 0.97))
    return Replay(ring, Uniform(ring, 0))


def same(a: FrameRing, b: FrameRing) -> None:
    low, high = a.eligible
    assert (a.cursor, a.eligible, len(a)) == (b.cursor, b.eligible, len(b))
    cells = torch.arange(low * B, high * B)
    assert torch.equal(a.sampleable(cells), b.sampleable(cells))
    cells = cells[a.sampleable(cells)]
    one, two = a.batch(cells), b.batch(cells)
    for name in type(one).__slots__:
        assert torch.equal(getattr(one, name), getattr(two, name)), name


@pytest.mark.parametrize("every", [slow(1), 4, slow(30)])
def test_what_comes_back_is_what_was_saved(tmp_path, monkeypatch, every):
    """Segments have 7 rows. A checkpoint is saved after every 1, 4 or 30 rollouts, while the ring holds 12 rollouts."""
    monkeypatch.setattr(replay_module, "SEGMENT_BYTES", 7 * B * (6 + 8))
    sims = Simulators(B, T, 0, dies=0.1)
    replay, folder = empty(sims), tmp_path / "checkpoints"
    checkpoints = Checkpoints(folder, keep=2)
    for i in range(2 * every + 40):
        replay.append(sims.rollout())
        if i % every == every - 1:
            checkpoints.save(i, {"replay": replay.state_dict()})
        if i % (3 * every) == 3 * every - 1:  # The run was killed, and another process continues from the checkpoint.
            replay = empty(sims)
            checkpoints = Checkpoints(folder, keep=2)
            replay.load_state_dict(checkpoints.load_latest()[1]["replay"])
            assert check(replay.ring, sims)
    checkpoints.save(1000, {"replay": replay.state_dict()})
    other = empty(sims)
    other.load_state_dict(Checkpoints(folder).load_latest()[1]["replay"])
    same(replay.ring, other.ring)
    assert check(other.ring, sims)


def test_a_checkpoint_writes_what_is_new(tmp_path, monkeypatch):
    monkeypatch.setattr(replay_module, "SEGMENT_BYTES", 7 * B * (6 + 8))
    sims = Simulators(B, T, 0)
    replay, checkpoints = empty(sims), Checkpoints(tmp_path / "checkpoints", keep=2)
    written = []
    for i in range(60):
        replay.append(sims.rollout())
        before = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "segments").glob("*")}
        checkpoints.save(i, {"replay": replay.state_dict()})
        now = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "segments").glob("*")}
        assert all(now[name] == before[name] for name in now if name in before)  # nothing is written twice
        written.append(len(set(now) - set(before)))
        rows = sum(int(n.split("-")[2]) - int(n.split("-")[1]) for n in now)
        # Besides the ring's rows, files may have a segment (7 rows) at each end, and 2 rollouts of another checkpoint.
        assert rows <= ROWS + 2 * 7 + 2 * T
    assert max(written) <= 2


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_rows_are_saved_as_they_were_when_the_checkpoint_began(tmp_path, monkeypatch, steps):
    """After a checkpoint has begun, training continues until all rows of the ring are overwritten.

    While training continues, the checkpoint writer writes nothing, a part after every third rollout, or a part after
    each rollout.
    """
    monkeypatch.setattr(replay_module, "SEGMENT_BYTES", 7 * B * (6 + 8))
    monkeypatch.setattr("accel_rl.checkpoints.writer.AHEAD", 2)
    sims = Simulators(B, T, 0, dies=0.1)
    replay, copy = empty(sims), empty(sims)
    for _ in range(30):
        rollout = sims.rollout()
        replay.append(rollout)
        copy.append(rollout)
    folders = [tmp_path / name / "checkpoints" for name in ("at_once", "meanwhile")]
    for folder in folders:
        folder.parent.mkdir()
    Checkpoints(folders[0]).save(10, {"replay": copy.state_dict()})
    writing = CheckpointWriter(Checkpoints(folders[1]), 10, {"replay": replay.state_dict()})
    for i in range(2 * ROWS // T):
        replay.append(sims.rollout())
        if i % 3 < steps:
            writing.step()
    writing.finish()
    one, two = empty(sims), empty(sims)
    for other, folder in zip((one, two), folders, strict=True):
        other.load_state_dict(Checkpoints(folder).load_latest()[1]["replay"])
    same(one.ring, two.ring)
    files = [sorted(p.name for p in (folder.parent / "segments").iterdir()) for folder in folders]
    assert files[0] == files[1] and len(files[0]) > 8


def test_a_restored_replay_does_not_write_complete_segments_again(monkeypatch):
    monkeypatch.setattr(replay_module, "SEGMENT_BYTES", 7 * B * (6 + 8))
    sims = Simulators(B, T, 0)
    replay, other = empty(sims), empty(sims)
    for _ in range(5):
        replay.append(sims.rollout())
    state = replay.state_dict()
    other.load_state_dict(state)
    complete = [low % 7 == 0 and high % 7 == 0 for low, high in state["history"]["rows"]]
    again = other.state_dict()["history"]
    assert again["rows"] == state["history"]["rows"] and sum(complete) == 3
    assert [a is b for a, b in zip(again["segments"], state["history"]["segments"], strict=True)] == complete


def test_a_ring_of_another_size_is_refused():
    sims = Simulators(B, T, 0)
    replay = empty(sims)
    for _ in range(4):
        replay.append(sims.rollout())
    state = replay.state_dict()
    other = Simulators(2, T, 0)
    ring = FrameRing(other.spec, 2, 100, NStep(3))
    with pytest.raises(ValueError, match="another environment or size"):
        Replay(ring, Uniform(ring, 0)).load_state_dict(state)
