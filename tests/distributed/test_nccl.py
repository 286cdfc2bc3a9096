"""NCCL collectives inside captured updates on a real GPU."""

import os
from dataclasses import replace

import pytest
import torch

from accel_rl.distributed.all_reduce import CollectiveMean
from accel_rl.distributed.process_group import backend, file_store, process_group
from accel_rl.optim.flat import FlatParameters
from accel_rl.ranks.sync_context import sync_context
from tests.distributed.test_captured_all_reduce import RUNS, played
from tests.integration.runs import run

pytestmark = pytest.mark.gpu


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).cuda()


def updated(mean, net, x):
    """Compute the clipped gradient of a loss, averaged over the ranks."""
    loss = net(x).square().mean()
    mean.backward(loss, 1.0)
    return mean.reduce(loss.detach(), 1.0, 0.5)[0]


def test_all_reduce_of_one_rank_is_captured_with_the_update():
    from accel_rl.distributed.collective import Collective

    fd = os.memfd_create("store")
    name = backend("cuda:0", torch.cuda.device_count(), 1)
    assert "nccl" in name
    store = file_store(fd, 1)
    with process_group(store, 0, 1, name, "cuda:0", 60.0):
        net, x = model(), torch.randn(32, 8, device="cuda")
        flat = FlatParameters(net)
        mean = CollectiveMean(flat, Collective(store))
        expected_norm = updated(mean, net, x).clone()
        expected = flat.grad.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                updated(mean, net, x)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            norm = updated(mean, net, x)
        flat.grad.zero_()
        graph.replay()
        torch.testing.assert_close(flat.grad, expected)
        torch.testing.assert_close(norm, expected_norm)
    os.close(fd)


@pytest.mark.parametrize("name", RUNS)
def test_runs_of_captured_updates(tmp_path, name):
    """Runs with captured updates end: NCCL's process group waits for ever if captured graphs are not freed first."""
    fd = os.memfd_create("store")
    store = file_store(fd, 1)
    with process_group(store, 0, 1, backend("cuda:0", 1, 1), "cuda:0", 60.0):
        captured, _, _ = played(RUNS[name], tmp_path / "captured", sync_context(store, 60.0, 100), "cuda:0")
        assert not (tmp_path / "captured/events.log").exists()  # All updates were captured.
        eager, _, _ = played(
            replace(RUNS[name], capture_updates=False), tmp_path / "eager", sync_context(store, 60.0, 100), "cuda:0"
        )
    for a, b in zip(captured, eager, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-3)
    os.close(fd)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@pytest.mark.parametrize("algorithm", ["a2c", "ppo", "dqn"])
def test_two_ranks_with_a_gpu_each(tmp_path, algorithm):
    """Two ranks with captured updates train to the end, although the keys of their captured graphs differ."""
    more = {"dqn": ("--replay.size", 4_000, "--replay.start", 500, "--replay.prioritized")}.get(algorithm, ())
    done = run(
        *("train", algorithm, "--env", "CartPole-v1", "--gpus", "0,1", "--envs", 16, "--hash-interval", 10, *more),
        *("--env-steps", 8_000, "--evaluation.interval", 0, "--run-dir", tmp_path / "run"),
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("update", ["all-reduce", "async"])
def test_two_ranks_share_a_gpu(tmp_path, update):
    done = run(
        *("train", "a2c", "--env", "CartPole-v1", "--gpus", "0", "--ranks", 2, "--update", update, "--envs", 16),
        *("--env-steps", 4_000, "--evaluation.interval", 0, "--run-dir", tmp_path / "run"),
    )
    assert done.returncode == 0, done.stderr
