"""A run stores the network with the best score, also after resumes, and replaces the files atomically."""

import math

import pytest
import torch

from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.run.rewind import rewind
from accel_rl.run.run_folder import RunFolder
from accel_rl.text.errors import ConfigError, RunError
from accel_rl.training import stored_agents as best_agent
from accel_rl.training.evaluation import Evaluation
from accel_rl.training.stored_agents import BestAgent, agent_state


def of(score: float) -> Evaluation:
    return Evaluation((score - 1, score + 1), (10, 20), {"name": "x"})


def state(value: float) -> dict:
    return agent_state({"epsilon": 0.1}, {"w": torch.full((4,), value)})


def test_the_highest_score_stays(tmp_path):
    best = BestAgent(RunFolder(tmp_path))
    assert best.score == -math.inf and best.load() is None
    noted = [best.note(i, of(score), state(score)) for i, score in enumerate((1.0, 5.0, 5.0, math.nan, 2.0))]
    assert noted == [True, True, False, False, False]
    assert not best.note(9, Evaluation((), (), {}), state(9.0))
    found = best.load()
    assert found["env_steps"] == 1 and found["evaluation"]["score_mean"] == best.score == 5.0
    assert found["learner"]["network"]["w"].tolist() == [5.0] * 4
    assert found["learner"]["algo"]["agent"] == {"epsilon": 0.1}
    assert [p.name for p in (tmp_path / "best" / "checkpoints").iterdir()] == [f"{1:012d}"]


def test_a_resumed_run_goes_on_from_its_best_of_before(tmp_path):
    BestAgent(RunFolder(tmp_path)).note(2_000, of(5.0), state(5.0))
    resumed = BestAgent(RunFolder(tmp_path))  # The run is resumed at 2,000 env steps.
    assert not resumed.note(2_500, of(4.0), state(4.0))
    assert resumed.note(2_600, of(6.0), state(6.0))
    assert resumed.load()["env_steps"] == BestAgent(RunFolder(tmp_path)).load()["env_steps"] == 2_600


def test_the_best_network_until_each_checkpoint_stays(tmp_path):
    run, best = RunFolder(tmp_path), BestAgent(RunFolder(tmp_path))
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    for env_steps in range(100, 1_000, 100):
        best.note(env_steps, of(env_steps), state(env_steps))
        if env_steps in (400, 700):
            checkpoints.save(env_steps + 50, {})
    assert sorted(int(p.name) for p in (tmp_path / "best" / "checkpoints").iterdir()) == [400, 700, 900]
    rewind(run, 450, chosen=True)
    assert checkpoints.steps() == [450] and BestAgent(run).load()["env_steps"] == 400
    resumed = BestAgent(run)
    assert not resumed.note(500, of(399.0), state(0.0)) and resumed.note(600, of(401.0), state(1.0))
    assert sorted(p.name for p in (tmp_path / "abandoned-1").iterdir()) == [f"{750:012d}", "best"]
    # If the run is resumed from an older checkpoint, best networks that are newer than this checkpoint are abandoned.
    rewind(run, 450, chosen=False)
    assert checkpoints.steps() == [450] and BestAgent(run).load()["env_steps"] == 400
    assert [p.name for p in (tmp_path / "abandoned-2/best/checkpoints").iterdir()] == [f"{600:012d}"]


def test_an_interrupted_write_leaves_the_last_one(tmp_path, monkeypatch):
    best = BestAgent(RunFolder(tmp_path))
    best.note(1, of(1.0), state(1.0))
    left = tmp_path / "best" / "checkpoints" / ".writing-1-2"
    left.mkdir()
    with monkeypatch.context() as m:
        m.setattr("accel_rl.checkpoints.checkpoint.write_synced", lambda *a: (_ for _ in ()).throw(OSError(28, "full")))
        with pytest.raises(RunError, match="full"):
            best.note(2, of(2.0), state(2.0))
    assert BestAgent(RunFolder(tmp_path)).load()["env_steps"] == 1
    assert BestAgent(RunFolder(tmp_path)).note(2, of(2.0), state(2.0)) and not left.exists()


def test_a_damaged_file_is_refused(tmp_path):
    BestAgent(RunFolder(tmp_path)).note(1, of(1.0), state(1.0))
    (file,) = (tmp_path / "best").rglob("state.safetensors")
    file.write_bytes(file.read_bytes()[:-1] + b"\xff")
    with pytest.raises(ConfigError, match="damaged"):
        BestAgent(RunFolder(tmp_path)).load()
    assert best_agent.BestAgent(RunFolder(tmp_path / "other")).load() is None


@pytest.mark.parametrize("name", ["MANIFEST.json", "state.json", "state.safetensors"])
def test_a_damaged_best_network_does_not_end_the_run(tmp_path, name):
    """If the best network's files are damaged, new networks are compared with the previous best one."""
    # Let the run have a checkpoint at 1 env step.
    (tmp_path / "checkpoints" / f"{1:012d}").mkdir(parents=True)
    best = BestAgent(RunFolder(tmp_path))
    assert best.note(1, of(1.0), state(1.0)) and best.note(2, of(5.0), state(5.0))
    file = tmp_path / "best" / "checkpoints" / f"{2:012d}" / name
    file.write_bytes(b"{" + file.read_bytes()[1:-1] + b"?")
    resumed = BestAgent(RunFolder(tmp_path))
    with pytest.warns(UserWarning, match=f"a best network is not compared with later ones: .*{2:012d}"):
        assert resumed.score == 1.0
    assert not resumed.note(3, of(0.5), state(0.5)) and resumed.note(4, of(2.0), state(2.0))
    assert resumed.load()["env_steps"] == 4
