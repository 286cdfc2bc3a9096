"""On a real GPU: the collective inside a captured update."""

import os

import pytest
import torch

from accel_rl.config.train import default_config
from accel_rl.distributed.all_reduce import AllReduce
from accel_rl.distributed.process_group import backend, file_store, process_group
from accel_rl.optim.adam import Adam
from accel_rl.optim.flat import FlatParameters

pytestmark = pytest.mark.gpu


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).cuda()


def updated(gradient_sync, net, x):
    """Loss, backward, mean over the ranks, clip: all that an update does before its optimizer."""
    loss = net(x).square().mean()
    gradient_sync.flat.backward(loss)
    return gradient_sync.reduce(loss.detach(), 1.0)[0]


def test_all_reduce_of_one_rank_is_captured_with_the_update():
    from accel_rl.distributed.collective import Collective

    fd = os.memfd_create("store")
    name = backend("cuda:0", torch.cuda.device_count(), 1)
    assert "nccl" in name
    store = file_store(fd, 1)
    with process_group(store, 0, 1, name, "cuda:0", 60.0):
        net, x = model(), torch.randn(32, 8, device="cuda")
        flat = FlatParameters(net)
        gradient_sync = AllReduce(flat, Adam(len(flat.data), device="cuda"), 0.5, Collective(store))
        expected_norm = updated(gradient_sync, net, x).clone()
        expected = flat.grad.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                updated(gradient_sync, net, x)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            norm = updated(gradient_sync, net, x)
        flat.grad.zero_()
        graph.replay()
        torch.testing.assert_close(flat.grad, expected)
        torch.testing.assert_close(norm, expected_norm)
    os.close(fd)


def test_a_rank_trains_on_a_gpu(tmp_path):
    from tests.integration.runs import run

    assert default_config("a2c").group.update == "all-reduce"
    for update in ("all-reduce", "async"):
        done = run(
            *("train", "a2c", "--env", "CartPole-v1", "--gpus", "0", "--ranks", 2, "--update", update, "--envs", 16),
            *("--env-steps", 4_000, "--evaluation.interval", 0, "--run-dir", tmp_path / update),
        )
        assert done.returncode == 0, done.stderr
