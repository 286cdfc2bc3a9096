"""After a failed capture, the GPU stream and the random generators can be used (real GPUs: `pytest -m gpu`)."""

import pytest
import torch

from accel_rl.machine.devices import runtime
from accel_rl.speed.cuda_graph import CudaGraphs


@pytest.fixture(params=["sim:0", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def device(request, simulated_gpu):
    return torch.device(request.param)


def test_a_failed_capture_leaves_the_stream_and_the_generators_usable(device):
    graphs, gpu = CudaGraphs(device), runtime(device)
    x, generator = torch.zeros(4, device=device), torch.Generator(device).manual_seed(1)
    before = gpu.current_stream(device)
    states = gpu.get_rng_state(device), generator.get_state()

    def work() -> None:
        x.add_(torch.rand(4, device=device) + torch.rand(4, device=device, generator=generator))
        if float(x.sum()) > 0:  # reads from the GPU
            x.zero_()

    with pytest.raises(RuntimeError):
        graphs.capture(work, [generator])
    assert gpu.current_stream(device) == before
    for found, state in zip((gpu.get_rng_state(device), generator.get_state()), states, strict=True):
        assert torch.equal(found, state)
    torch.randperm(8, device=device), torch.rand(4, device=device, generator=generator)
    replay = graphs.capture(lambda: x.add_(torch.rand(4, device=device, generator=generator)), [generator])
    x.zero_()
    replay()
    assert ((x > 0) & (x < 1)).all()
