"""Ranks that push random gradients until they are killed.

    python -m tests.distributed.push_chunks FD PROGRESS PARAMETERS CHUNKS LOCAL_UPDATES

For each line `RANK CREATE` of its input, the program forks a process for the rank, and prints the process id. Each rank
counts its updates in the shared memory PROGRESS.
"""

import mmap
import os
import signal
import sys

import numpy as np
import torch

from accel_rl.distributed.locked_chunk import LockedChunks
from accel_rl.distributed.multi_step_adam import MultiStepAdam
from accel_rl.optim.flat import FlatParameters
from accel_rl.optim.optimizers import Adam
from accel_rl.processes.process import die_with_parent
from tests.distributed.checked_central import CheckedCentral


def exchange_of(parameters, chunks, rank=0, local_updates=1):
    torch.manual_seed(0)
    model = torch.nn.Linear(parameters - 1, 1)  # and a bias
    flat = FlatParameters(model)
    if local_updates > 1:
        return MultiStepAdam(flat, Adam, None, chunks, rank, local_updates)
    return LockedChunks(flat, Adam, None, chunks, rank)


def central_of(gradient_sync, fd, create):
    return CheckedCentral(gradient_sync.parts, gradient_sync.states(), fd, create=create)


def push(rank, fd, progress, parameters, chunks, local_updates, create):
    gradient_sync = exchange_of(parameters, chunks, rank, local_updates)
    gradient_sync.connect(central_of(gradient_sync, fd, create), publish=create)
    generator = torch.Generator().manual_seed(os.getpid())
    while True:
        gradient_sync.pull()
        gradient_sync.flat.grad.copy_(torch.randn(parameters, generator=generator))
        gradient_sync.step(1e-3, torch.zeros(()))
        assert gradient_sync.flat.data.isfinite().all()
        progress[rank] += 1


def main() -> None:
    fd, progress_fd, parameters, chunks, local_updates = map(int, sys.argv[1:])
    progress = np.frombuffer(mmap.mmap(progress_fd, 4096), np.int64)
    torch.set_num_threads(1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # Killed child processes do not become zombies.
    parent = os.getpid()
    for line in sys.stdin:
        rank, create = map(int, line.split())
        if (pid := os.fork()) == 0:
            die_with_parent(parent)
            push(rank, fd, progress, parameters, chunks, local_updates, bool(create))
        print(pid, flush=True)


if __name__ == "__main__":
    main()
