"""GPU streams, of which torch has only 32 per device, are owned by objects, and freed with them.

The tests run on a simulated GPU, and with `pytest -m gpu` on a real GPU.
"""

import gc
from dataclasses import replace

import pytest
import torch

from accel_rl.machine import devices
from accel_rl.machine.devices import Device, runtime
from accel_rl.speed.cuda_graph import CudaGraphs
from tests.gpu.runs import GPU, RUNS, build, cycles


class Owner:
    pass


@pytest.fixture(params=[GPU, pytest.param("cuda:0", marks=pytest.mark.gpu)])
def device(request, simulated_gpu, monkeypatch):
    monkeypatch.setattr(devices, "_owned", set())
    return Device(request.param)


def test_a_stream_has_one_owner_at_a_time(device):
    owner = Owner()
    kept = [device.stream(owner).stream_id for _ in range(3)]
    for _ in range(3 * devices.STREAMS):
        short = Owner()
        assert device.stream(short).stream_id not in kept
        del short
    assert len({*kept, runtime(device).default_stream(device).stream_id}) == 4


def test_more_owners_than_streams_are_logged(device, monkeypatch):
    said = []
    monkeypatch.setattr(devices, "say_once", said.append)
    owner = Owner()
    assert len({device.stream(owner).stream_id for _ in range(devices.STREAMS)}) == devices.STREAMS and not said
    device.stream(owner)
    assert len(said) == 1 and "more than 32 streams" in said[0]


def test_owners_in_cycles_of_references_lose_their_streams(device, monkeypatch):
    """A finished run, for example, owns GPU streams, and is in a reference cycle until Python's garbage collection."""
    said = []
    monkeypatch.setattr(devices, "say_once", said.append)
    gc.disable()
    try:
        for _ in range(2 * devices.STREAMS):
            owner = Owner()
            owner.owner = owner
            device.stream(owner)
    finally:
        gc.enable()
    assert not said


def test_a_capture_survives_many_others(device):
    """The capture of a CUDA graph fails if another thread, such as a sampler's, uses the capture's GPU stream."""
    owner, x, y = Owner(), torch.zeros(3, device=device), torch.zeros(3, device=device)
    copying = device.stream(owner)
    for _ in range(40):
        graphs = CudaGraphs(torch.device(device))
        runtime(device).synchronize()

        def work():
            x.add_(1)
            with device.on(copying):  # as another thread
                y.add_(1)

        graphs.capture(work)
    runtime(device).synchronize()
    assert x.tolist() == [0] * 3 and y.tolist() == [40] * 3


@pytest.mark.slow
def test_the_streams_of_a_run_differ(simulated_gpu, tmp_path, monkeypatch):
    """Training and evaluations use different GPU streams, even after many other streams were made."""
    made, stream = [], Device.stream
    monkeypatch.setattr(Device, "stream", lambda self, owner: made.append(stream(self, owner)) or made[-1])
    name = "dqn, concurrent, second learner"
    run = replace(RUNS[name], evaluation=replace(RUNS[name].evaluation, parallel=2, steps=20))
    trainer = build(run, GPU, tmp_path / "run")
    trainer.reporter.open(0, 0)
    cycles(trainer, 2)
    of_training = {s.stream_id for s in made}
    assert len(of_training) == len(made) >= 5
    for _ in range(18):
        trainer.evaluator.evaluate(trainer.learner.algo.agent.evaluating(False), steps=20, seed=7)
        trainer.evaluator.close()
        gc.collect()
    later = made[len(of_training) :]
    assert len(later) == 36 and not of_training & {s.stream_id for s in later}
    trainer._close()
