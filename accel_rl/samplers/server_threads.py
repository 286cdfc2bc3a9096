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

Stopped = Callable[[], bool]


class ServerThreads:
    """cores: of each group; none: anywhere. torch_threads: of one operation in each of the threads."""

    def __init__(self, cores: Sequence[Sequence[int]], torch_threads: int):
        def settle(own: Sequence[int]) -> None:  # when the first run starts the threads
            if own:
                pin(own)
            torch.set_num_threads(torch_threads)

        self._pools = [ThreadPoolExecutor(1, f"group-{g}", settle, (own,)) for g, own in enumerate(cores)]

    def run(
        self,
        play: Callable[[int, Stopped], None],
        oversee: Callable[[Stopped], None],
        wake: Callable[[], None],
    ) -> None:
        """play(group, stopped) in every thread, and oversee(over) in this one until all have ended or one has failed.

        wake: what makes `oversee`, and whoever waits in a `play`, look again. Raises what failed first, once no thread
        plays any more.
        """
        stop = Event()
        playing: list[Future[None]] = []
        try:
            for g, pool in enumerate(self._pools):
                playing.append(pool.submit(play, g, stop.is_set))
                playing[-1].add_done_callback(lambda _: wake())
            oversee(lambda: all(f.done() for f in playing) or any(f.done() and f.exception() for f in playing))
        finally:
            stop.set()
            wake()
            wait(playing)
        for future in playing:
            future.result()

    def close(self) -> None:
        for pool in self._pools:
            pool.shutdown()
