"""A thread for each group of environments, on the cores of the group's own workers.

    core 0   step A  | act A  | step A  | act A  | ...
    core 1   step B | act B | step B | act B | ...        nobody waits for another core within a rollout

Where workers and action server share their cores, and a step takes less than inference, alternating hides nothing; one
batch for all makes every core wait at every step for the slowest one, and for the slowest thread of each operation.
"""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Event
from typing import Any

import torch

from accel_rl.samplers.workers.pool import WorkerPool
from accel_rl.system.hardware import pin


class ServerThreads:
    """Of a pool in whose grouping each group has its own workers.

    cores: of each group; none: anywhere. torch_threads: of one operation in each of the threads.
    """

    def __init__(self, pool: WorkerPool, cores: Sequence[Sequence[int]], torch_threads: int):
        def settle(own: Sequence[int]) -> None:  # when the first run starts the threads
            if own:
                pin(own)
            torch.set_num_threads(torch_threads)

        self._pool, self._stop = pool, Event()
        self._threads = [ThreadPoolExecutor(1, f"group-{g}", settle, (own,)) for g, own in enumerate(cores)]
        self._playing: deque[list[Future[None]]] = deque()  # by rollout

    def begin(self, T: int, serve: Callable[[int, int], int]) -> None:
        """serve(t, group) for t from 0, each once the group's workers are ready, and until they are again. It returns
        the next t; T, or more, ends it. A group that has ended what was begun before goes on at once."""
        pool, stop = self._pool, self._stop

        def play(g: int) -> None:
            t = 0
            while t < T:
                if not pool.wait_alone(g, stop.is_set):
                    return
                t = serve(t, g)
            pool.wait_alone(g, stop.is_set)

        playing = [thread.submit(play, g) for g, thread in enumerate(self._threads)]
        self._playing.append(playing)

        def ended(future: Future[None]) -> None:
            if future.exception() or all(f.done() for f in playing):
                pool.wake()

        for future in playing:
            future.add_done_callback(ended)

    def rounds(self, group: int, calls: Any, t: int, T: int, slot: int) -> int:
        """See WorkerPool; from the group's own thread."""
        return self._pool.rounds(group, calls, t, T, slot)

    def wait(self) -> None:
        """Until what was begun first has ended. This thread sees to workers that die or hang. Raises what failed first,
        once nobody serves any more."""
        first = self._playing[0]
        every = [f for playing in self._playing for f in playing]
        ended = False
        try:
            self._pool.oversee(lambda: all(f.done() for f in first) or any(f.done() and f.exception() for f in every))
            for future in every:
                if future.done():
                    future.result()
            ended = True
        finally:
            if not ended:
                self._stop.set()
                self._pool.interrupt()
                wait(every)
                self._stop.clear()
                self._playing.clear()
        self._playing.popleft()

    def close(self) -> None:
        self._stop.set()
        self._pool.interrupt()
        for thread in self._threads:
            thread.shutdown()
