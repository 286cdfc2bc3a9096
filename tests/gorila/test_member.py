"""A Gorila member whose newest checkpoint has more env steps than the checkpoint from which the run continues."""

import pytest

from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.gorila.member import Member
from accel_rl.run.run_folder import RunFolder


@pytest.mark.parametrize(
    ("saved", "env_steps", "left"),
    [
        ([], 100, []),
        ([40, 80], 100, [40, 80]),
        ([80, 120], 100, [80, 100]),
        ([80, 120, 140], 100, [80, 100]),
        ([100, 120], 100, [100]),
    ],
)
def test_the_newest_checkpoint_is_of_this_moment(tmp_path, saved, env_steps, left):
    folder = RunFolder(tmp_path)
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    for steps in saved:
        checkpoints.save(steps, {"env_steps": steps, "logged_at": steps, "what": steps})
    state = Member(None, 0, 0, "bundle")._state(folder, env_steps)
    assert checkpoints.steps() == left
    if not saved:
        assert state is None
        return
    assert state["env_steps"] == env_steps and state["logged_at"] <= env_steps
    assert state["what"] == (max(s for s in saved if s <= env_steps) if env_steps in saved else max(saved))


def test_a_damaged_checkpoint_is_left_out(tmp_path):
    path = Checkpoints(tmp_path / "checkpoints").save(40, {"env_steps": 40, "logged_at": 40})
    (path / "state.json").write_text("{}")
    assert Member(None, 0, 0, "bundle")._state(RunFolder(tmp_path), 100) is None
    assert "starts without its checkpoint" in (tmp_path / "events.log").read_text()
