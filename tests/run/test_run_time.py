"""The time and energy of a run add up over the processes that resume it. A stand-in for NVML counts a GPU's energy."""

from functools import partial

import pytest

from accel_rl.machine.gpu_energy import GpuEnergy
from accel_rl.run import run_time
from accel_rl.run.run_time import RunTime
from tests.machine.test_gpu_energy import compiled


@pytest.fixture
def counter(tmp_path, monkeypatch):
    """The file from which the stand-in for NVML reads the energy of the GPU cuda:0, in millijoules."""
    monkeypatch.setattr(run_time, "GpuEnergy", partial(GpuEnergy, library=compiled(tmp_path)))
    monkeypatch.setattr(run_time, "gpu_id", lambda device: {"cuda:0": "GPU-a"}[device])
    file = tmp_path / "GPU-a"
    file.write_text("1000")
    return file


def begun(device, state=None, counts_usage=True):
    time = RunTime(counts_usage, device)
    if state is not None:
        time.load_state_dict(state)
    time.begin()
    time.train()
    return time


def test_the_energy_of_a_gpu_goes_on_from_the_checkpoint(counter):
    time = begun("cuda:0")
    counter.write_text("3500")
    assert time.row(10)["gpu_joules"] == 2.5
    state = time.state_dict()
    counter.write_text("9000")  # Used after the checkpoint
    time.close()
    resumed = begun("cuda:0", state)
    assert resumed.row(10)["gpu_joules"] == 2.5
    counter.write_text("9250")
    assert resumed.row(10)["gpu_joules"] == 2.75
    state = resumed.state_dict()
    resumed.close()
    on_cpu = begun("cpu", state)
    counter.write_text("10000")
    assert on_cpu.row(10)["gpu_joules"] == 2.75
    on_cpu.close()


def test_an_unknown_energy_stays_unknown(counter):
    time = begun("cuda:0")
    counter.unlink()
    assert "gpu_joules" not in time.row(10)
    state = time.state_dict()
    assert state["gpu_joules"] is None
    time.close()
    counter.write_text("1")
    resumed = begun("cuda:0", state)
    counter.write_text("5000")
    assert "gpu_joules" not in resumed.row(10)
    resumed.close()
    ranks = begun("cuda:0", counts_usage=False)
    assert {"cpu_s", "joules", "gpu_joules"}.isdisjoint(ranks.row(10))
    ranks.close()


def test_a_run_on_a_cpu_has_no_energy_of_gpus():
    time = begun("cpu")
    row = time.row(10)
    assert "gpu_joules" not in row and row["wall_s"] >= 0
    older = {name: x for name, x in time.state_dict().items() if name != "gpu_joules"}
    time.close()
    resumed = begun("cpu", older)
    assert "gpu_joules" not in resumed.row(10)
    resumed.close()
