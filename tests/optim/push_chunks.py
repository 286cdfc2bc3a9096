"""A rank that pushes made-up gradients until it is killed: `python -m tests.optim.push_chunks RANK FD PARAMETERS CHUNKS
LOCAL_UPDATES CREATE`. It says `ready`, and then `.` after each update."""

import os
import sys

import torch

from accel_rl.optim.central import Central
from accel_rl.optim.flat import FlatParameters
from accel_rl.optim.locked_chunk import LockedChunks
from accel_rl.optim.multi_step_adam import MultiStepAdam
from accel_rl.optim.rules import Adam


def exchange_of(parameters, chunks, rank=0, local_updates=1):
    torch.manual_seed(0)
    model = torch.nn.Linear(parameters - 1, 1)  # and a bias
    flat = FlatParameters(model)
    if local_updates > 1:
        return MultiStepAdam(flat, Adam, None, chunks, rank, local_updates)
    return LockedChunks(flat, Adam, None, chunks, rank)


def central_of(exchange, fd, create):
    return Central(exchange.parts, exchange.states(), fd, create=create, checks=True)


def main() -> None:
    rank, fd, parameters, chunks, local_updates, create = map(int, sys.argv[1:])
    torch.set_num_threads(1)
    exchange = exchange_of(parameters, chunks, rank, local_updates)
    exchange.connect(central_of(exchange, fd, bool(create)), publish=bool(create))
    print("ready", flush=True)
    generator = torch.Generator().manual_seed(os.getpid())
    while True:
        exchange.prepare()
        exchange.flat.grad.copy_(torch.randn(parameters, generator=generator))
        exchange.apply(1e-3, torch.zeros(()))
        assert exchange.flat.data.isfinite().all()
        print(".", end="", flush=True)


if __name__ == "__main__":
    main()
