"""This module implements the collective operations of synchronous ranks, over torch's default process group."""

import contextlib
import json
import os
import platform
import select
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from accel_rl.distributed.communicator import CountedSteps
from accel_rl.distributed.patient_store import PatientStore
from accel_rl.distributed.process_group import leave
from accel_rl.text.errors import RunError


class Watch:
    """Reports which of the processes {rank: pid} have ended. A pidfd also works for a process that is not a
    child process, and never refers to a later process with the same pid."""

    def __init__(self, pids: dict[int, int]):
        self._poll = select.poll()
        self._pids, self._ranks = pids, dict[int, int]()
        self._gone = set[int]()
        for rank, pid in pids.items():
            try:
                fd = os.pidfd_open(pid)
            except ProcessLookupError:
                self._gone.add(rank)
            except OSError:  # On a system without pidfds, a lost rank is detected only by a timeout.
                continue
            else:
                self._ranks[fd] = rank
                self._poll.register(fd, select.POLLIN)

    def gone(self) -> list[int]:
        """The ranks whose processes have ended."""
        for fd, _ in self._poll.poll(0) if self._ranks else ():
            self._poll.unregister(fd)
            self._gone.add(self._ranks.pop(fd))
            os.close(fd)
        return sorted(self._gone)

    def pids(self) -> dict[int, int]:
        """{rank: pid} of the processes that have not ended."""
        return {rank: self._pids[rank] for rank in self._ranks.values()}

    def kill(self, rank: int) -> None:
        """Kill a process that has not ended."""
        fd = next(fd for fd, r in self._ranks.items() if r == rank)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(fd, signal.SIGKILL)


SETTLE_S = 3.0  # After a failure, each surviving rank sets its key in the store within `SETTLE_S` seconds.
ANSWER_S = 2.0  # The ranks' store must answer within `ANSWER_S` seconds.


class Collective:
    """A `Communicator` over torch's default process group. Tensors in host memory use gloo, and
    tensors on the group's device use the group's own backend. Raises RunError if a rank has ended or does not answer
    within the group's timeout."""

    def __init__(self, store: Any) -> None:
        """`store` is the store through which the process group was formed."""
        self.rank = dist.get_rank()
        self.size = dist.get_world_size()
        self.store = PatientStore(store, ANSWER_S)
        self.watch = Watch({})  # The processes of the other ranks on this machine
        # Pending operations are dropped after a failure, because they keep the process group's connections open.
        self._works: list[Any] = []
        self._hosts: list[str] = self.gather(platform.node())

    @property
    def on_gpu(self) -> bool:
        """Whether collective operations on GPU tensors run on the GPU (NCCL), so that the host does not wait for the
        results."""
        return "nccl" in dist.get_backend_config()

    def all_reduce_sum(self, x: Tensor) -> Tensor:
        return self._reduce(x, dist.ReduceOp.SUM)

    def all_reduce_max(self, x: Tensor) -> Tensor:
        return self._reduce(x, dist.ReduceOp.MAX)

    def count(self, env_steps: int) -> CountedSteps:
        total = int(self.all_reduce_sum(torch.tensor(env_steps)))
        return CountedSteps(total, total)

    def all_reduce_min(self, n: int) -> int:
        return -int(self.all_reduce_max(torch.tensor(-n)))

    def all_gather(self, numbers: Sequence[int]) -> list[list[int]]:
        rows = torch.zeros(self.size, len(numbers), dtype=torch.int64)
        rows[self.rank] = torch.tensor(numbers)
        return self.all_reduce_sum(rows).tolist()

    def updates(self, of_rank: int) -> int:
        """Return `of_rank`, because synchronous ranks make every update together."""
        return of_rank

    def gather(self, x: Any) -> list[Any]:
        """The values x (lists, numbers and strings) of all ranks, in the order of ranks. The values are sent as
        JSON, because unpickling another machine's bytes could run code."""
        data = torch.frombuffer(bytearray(json.dumps(x).encode()), dtype=torch.uint8)
        sizes = [n for (n,) in self.all_gather([len(data)])]
        rows = torch.zeros(self.size, max(sizes), dtype=torch.uint8)
        rows[self.rank, : len(data)] = data
        self.all_reduce_sum(rows)
        return [json.loads(row[:n].numpy().tobytes()) for row, n in zip(rows, sizes, strict=True)]

    def begin_sum(self, x: Tensor) -> Callable[[], None]:
        """Start to sum x over the ranks in place, in the background. Return a function that waits for the sum."""
        with _Named(self, f"{x.numel()} numbers"):
            self._works.append(dist.all_reduce(x, async_op=True))

        def finish() -> None:
            with _Named(self, f"{x.numel()} numbers"):
                self._works.pop(0).wait()

        return finish

    def _reduce(self, x: Tensor, op: Any) -> Tensor:
        with _Named(self, f"{x.numel()} numbers"):
            dist.all_reduce(x, op)
        return x

    def failed(self, what: str, why: str) -> RunError:
        """The error of a failed collective operation, which names the ranks that have ended or hang. Each
        healthy rank sets a key in the process group's store; a rank whose key is missing has ended or hangs."""
        return RunError(f"{self._missing()}: {what} could not be exchanged (rank {self.rank}: {why})")

    def _missing(self) -> str:
        self._works.clear()
        leave()  # Closed connections let waiting ranks notice the failure.
        others = [r for r in range(self.size) if r != self.rank]
        try:
            missing = self._without_key(others)
        except RunError as e:
            return f"{e}, and rank {self._names(others)} may be gone"
        return f"rank {self._names(missing)} is gone or hangs" if missing else "the ranks lost each other"

    def _without_key(self, others: list[int]) -> list[int]:
        """The ranks in `others` that do not set their keys within SETTLE_S seconds. Raises RunError if the store does
        not answer."""
        deadline = time.monotonic() + SETTLE_S
        self.store.set(f"well/{self.rank}", "1")
        while set(others) - set(self.watch.gone()) and time.monotonic() < deadline:
            others = [r for r in others if not self.store.check(f"well/{r}")]
            time.sleep(0.02)
        return others

    def _names(self, ranks: list[int]) -> str:
        """A text with the numbers of the ranks, and with their hosts if the run uses several hosts."""
        several = len(set(self._hosts)) > 1
        return ", ".join(f"{r} ({self._hosts[r]})" if several else str(r) for r in ranks)


class _Named:
    """Converts the failure of a collective operation into a RunError with a message
    of one line."""

    def __init__(self, group: Collective, what: str):
        self.group, self.what = group, what

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, RuntimeError) and not isinstance(error, RunError):
            traceback.clear_frames(trace)  # The stack frames of the traceback would keep the group's connections open.
            raise self.group.failed(self.what, " ".join(str(error).split())[:200]) from error
