"""A run records the energy that its GPU has used, also after a resume. The GPU and NVML are simulated."""

import csv
from functools import partial

from accel_rl.cli.main import main
from accel_rl.machine.gpu_energy import GpuEnergy
from accel_rl.metrics.sinks import CsvSink
from accel_rl.run import run_time
from accel_rl.training import build_trainer
from tests.gpu.runs import GPU, declare_parts
from tests.machine.test_gpu_energy import compiled

TRAIN = (
    *("train", "a2c", "--game", "pong", "--device", GPU, "--engine", "in-process", "--envs", "4", "--horizon", "5"),
    *("--env-steps", "80", "--log.interval", "40", "--evaluation.interval", "0", "--decorrelation-steps", "0"),
    *("--groups", "1"),
)


def test_a_run_records_the_energy_of_its_gpu(simulated_gpu, tmp_path, monkeypatch):
    build = build_trainer.build_sampler

    def declared(*args, **kwargs):
        declare_parts(sampler := build(*args, **kwargs))
        return sampler

    monkeypatch.setattr(build_trainer, "build_sampler", declared)
    counter = tmp_path / "GPU-a"
    counter.write_text("0")
    monkeypatch.setattr(run_time, "GpuEnergy", partial(GpuEnergy, library=compiled(tmp_path)))
    monkeypatch.setattr(run_time, "gpu_id", lambda device: {GPU: "GPU-a"}[device])
    write = CsvSink.write

    def write_and_use(self, row):
        """Write a row of metrics.csv, and increase the GPU's energy counter by 1.5 joules."""
        write(self, row)
        counter.write_text(str(int(counter.read_text()) + 1_500))

    monkeypatch.setattr(CsvSink, "write", write_and_use)
    folder = tmp_path / "run"
    assert main([*TRAIN, "--run-dir", str(folder)]) == 0
    assert main(["resume", str(folder), "--env-steps", "160"]) == 0
    with open(folder / "metrics.csv", newline="") as f:
        joules = [row["gpu_joules"] for row in csv.DictReader(f)]
    # The first row has no value. Each later row adds 1.5 joules, also across the resume.
    assert joules == ["", "1.5", "3", "4.5"]
