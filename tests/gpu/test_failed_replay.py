"""If the replay of a captured graph fails, the run ends with one line and exit code 1, and can be resumed from its
newest checkpoint."""

import pytest
import torch

from accel_rl.checkpoints.checkpoint import load
from accel_rl.cli.main import main
from accel_rl.training.saver import Saver
from tests.gpu.runs import GPU
from tests.simulated_device import graphs

TRAIN = (
    *("train", "a2c", "--game", "pong", "--device", GPU, "--engine", "in-process", "--envs", "4", "--horizon", "5"),
    *("--env-steps", "200", "--checkpoint.interval", "60", "--evaluation.interval", "0", "--decorrelation-steps", "0"),
    *("--log.interval", "20", "--torch-threads", "1", "--seed", "3", "--groups", "1"),
)


@pytest.mark.slow
@pytest.mark.parametrize("captures", ["updates", "inference"])
def test_the_run_ends_and_is_resumed(simulated_gpu, tmp_path, capsys, monkeypatch, captures):
    run, uninterrupted = tmp_path / "run", tmp_path / "uninterrupted"
    train = [*TRAIN, "--sampler.no-capture" if captures == "updates" else "--no-capture-updates"]
    assert main([*train, "--run-dir", str(uninterrupted)]) == 0
    save, failing = Saver.save, list[str]()
    monkeypatch.setattr(graphs, "failing_replays", failing)

    def save_and_fail(self):
        save(self)
        failing.append("CUDA error: unspecified launch failure\nCUDA kernel errors might be ...")

    with monkeypatch.context() as patch:
        patch.setattr(Saver, "save", save_and_fail)
        capsys.readouterr()
        assert main([*train, "--run-dir", str(run)]) == 1
    assert not failing
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(
        f"accel-rl: {GPU} failed: AcceleratorError: CUDA error: unspecified launch failure CUDA kernel"
    )
    assert last.endswith(f"the traceback is in {run / 'events.log'}")
    assert "graph.replay()" in (run / "events.log").read_text()
    (checkpoint,) = (run / "checkpoints").iterdir()
    assert load(checkpoint)["learner"]["env_steps"] == 60
    assert main(["resume", str(run)]) == 0
    found, expected = (load(max((f / "checkpoints").iterdir())) for f in (run, uninterrupted))
    for name, x in expected["learner"]["network"].items():
        assert torch.equal(found["learner"]["network"][name], x)
