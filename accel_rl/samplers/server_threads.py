"""A thread for each group of environments, on the cores of the group's own workers.

    core 0   step A  | act A  | step A  | act A  | ...
    core 1   step B | act B | step B | act B | ...        nobody waits for another core within a rollout

Where workers and action server share their cores, and a step takes less than inference, alternating hides nothing; one
batch for all makes every core wait at every step for the slowest one, and for the slowest thread of each operation.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Event

import torch

from accel_rl.hardware import pin
from accel_rl.samplers.worker_pool import WorkerPool


class ServerThreads:
    """Of a pool in whose grouping each group has its own workers.

    cores: of each group; none: anywhere. torch_threads: of one operation in each of the threads.
    """

    def __init__(self, pool: WorkerPool, cores: Sequence[Sequence[int]], torch_threads: int):
        def settle(own: Sequence[int]) -> None:  # when the first run starts the threads
            if own:
                pin(own)
            torch.set_num_threads(torch_threads)

        self._pool = pool
        self._threads = [ThreadPoolExecutor(1, f"group-{g}", settle, (own,)) for g, own in enumerate(cores)]

    def run(self, T: int, serve: Callable[[int, int], None]) -> None:
        """serve(t, group) for t in 0 .. T - 1, each once the group's workers are ready, and until they are again.

        This thread sees to workers that die or hang. Raises what failed first, once nobody serves any more.
        """
        pool, stop = self._pool, Event()

        def play(g: int) -> None:
            for t in range(T):
                if not pool.wait_alone(g, stop.is_set):
                    return
                serve(t, g)
            pool.wait_alone(g, stop.is_set)

        playing: list[Future[None]] = []
        try:
            for g, thread in enumerate(self._threads):
                playing.append(thread.submit(play, g))
                playing[-1].add_done_callback(lambda _: pool.wake())
            pool.oversee(lambda: all(f.done() for f in playing) or any(f.done() and f.exception() for f in playing))
        finally:
            stop.set()
            pool.wake()
            wait(playing)
        for future in playing:
            future.result()

    def close(self) -> None:
        for thread in self._threads:
            thread.shutdown()
