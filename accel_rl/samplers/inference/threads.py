"""Each group of environments has its own inference thread, which runs on the cores of the group's worker processes.

    core 0   step A  | act A  | step A  | act A  | ...
    core 1   step B | act B | step B | act B | ...        no core waits for another within a rollout

If one thread computed the actions of all groups, every core would wait for the slowest core at every step. Stepping one
group while computing another group's actions would not avoid these waits, because emulation is faster than inference.
"""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Event

import torch

from accel_rl.machine.hardware import pin
from accel_rl.samplers.workers.pool import WorkerPool


class InferenceThreads:
    """One inference thread per group, for a pool in which each group has dedicated workers.

    `cores` lists the cores to which each group's thread is pinned; an empty list means that the thread is not pinned.
    `torch_threads` is the number of threads per torch operation.
    """

    def __init__(self, pool: WorkerPool, cores: Sequence[Sequence[int]], torch_threads: int):
        def settle(cores: Sequence[int]) -> None:  # `settle` runs at the start of each inference thread.
            if cores:
                pin(cores)
            torch.set_num_threads(torch_threads)

        self._pool, self._stop = pool, Event()
        self._threads = [ThreadPoolExecutor(1, f"group-{g}", settle, (c,)) for g, c in enumerate(cores)]
        self._rollouts: deque[list[Future[None]]] = deque()  # The running rollouts, oldest first

    def begin(self, T: int, serve: Callable[[int, int], None]) -> None:
        """Start a rollout. For t < T, each group's thread calls serve(t, group) as soon as the group's worker processes
        have finished the previous step. A group does not wait for other groups to finish the previous rollout."""
        pool, stop = self._pool, self._stop

        def play(g: int) -> None:
            for t in range(T):
                if not pool.wait_alone(g, stop.is_set):
                    return
                serve(t, g)
            pool.wait_alone(g, stop.is_set)

        futures = [thread.submit(play, g) for g, thread in enumerate(self._threads)]
        self._rollouts.append(futures)

        def ended(future: Future[None]) -> None:
            if future.exception() or all(f.done() for f in futures):
                pool.wake()

        for future in futures:
            future.add_done_callback(ended)

    def wait(self) -> None:
        """Wait until the oldest running rollout has ended. While waiting, replace worker processes that die or hang. If
        an inference thread raises an exception, stop all threads and raise the exception again."""
        oldest = self._rollouts[0]
        every = [f for futures in self._rollouts for f in futures]
        is_done = False
        try:
            self._pool.oversee(lambda: all(f.done() for f in oldest) or any(f.done() and f.exception() for f in every))
            for future in every:
                if future.done():
                    future.result()
            is_done = True
        finally:
            if not is_done:
                self._stop.set()
                self._pool.wake_all()
                wait(every)
                self._stop.clear()
                self._rollouts.clear()
        self._rollouts.popleft()

    def close(self) -> None:
        self._stop.set()
        self._pool.wake_all()
        for thread in self._threads:
            thread.shutdown()
