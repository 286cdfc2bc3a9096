"""Start, supervise, replace and end the worker processes of one sampler."""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from accel_rl.data.rollout_arrays import RolloutArrays, rollout_layout
from accel_rl.data.shared_memory import Layout, SharedArrays
from accel_rl.data.spec import EnvSpec
from accel_rl.processes.guard import Guard
from accel_rl.processes.process import SLICE_S, patience_s
from accel_rl.samplers.engine import EngineSetup, WorkersReplaced
from accel_rl.samplers.grouping import Grouping, env_seed
from accel_rl.samplers.workers.channel import EventFd, ServerSide, WorkersSilent, counters_layout
from accel_rl.samplers.workers.control import Disconnected
from accel_rl.samplers.workers.messages import Reply, Request, WorkerSetup
from accel_rl.samplers.workers.worker_process import History, WorkerLost, WorkerProcess
from accel_rl.text.errors import RunError

logger = logging.getLogger(__name__)


class PoolMemory:
    """Shared memory: the rollouts of all environments, and the request and answer counters of the worker processes."""

    def __init__(self, spec: EnvSpec, grouping: Grouping, T: int, buffers: int):
        self.rollout_layout: Layout = {}
        for i in range(buffers):
            self.rollout_layout |= rollout_layout(spec, T, grouping.B, prefix=f"{i}/")
        self.rollouts = SharedArrays.create(self.rollout_layout)
        self.buffers = [RolloutArrays.of(self.rollouts.arrays, spec.stack, prefix=f"{i}/") for i in range(buffers)]
        self.counters_layout = counters_layout(grouping.workers, grouping.groups)
        self.counters = SharedArrays.create(self.counters_layout)

    @property
    def fds(self) -> set[int]:
        return {self.rollouts.fd, self.counters.fd}

    def close(self) -> None:
        self.rollouts.close()
        self.counters.close()


CLOSE_TIMEOUT_S = 2.0
MAX_FAILED_STARTS = 3
WARNED_DEATHS = 3  # After WARNED_DEATHS deaths of a worker in a row, a warning says that the run may end.
MAX_DEATHS_IN_A_ROW = 10  # The run ends after this many deaths of one worker without a complete rollout in between.
# A saved state of ale-py is a list of actions of one byte, of which about 500 per second are replayed.
REPLAYED_BYTES_PER_S = 500


@dataclass(frozen=True, slots=True)
class PoolConfig:
    cores: tuple[int | None, ...]
    """The core of each worker, or None for a worker that is not pinned."""
    strict: bool = False
    """If true, the death of a worker process ends the run; otherwise the process is replaced."""
    timeout_s: float = 60.0
    """A worker process that does not answer for timeout_s seconds is treated as hung."""
    on_error: str = "stop"
    """With "restart", a worker process whose environment raises an error is replaced, as if the process had died."""
    start_timeout_s: float = 120.0
    """A worker process that is not ready within start_timeout_s seconds is replaced."""
    nice: int = 0
    """Nice value of the worker processes; a higher value means a lower priority."""
    spins: int = 0
    """How often a waiting process reads the shared counters before it sleeps."""


class WorkerPool:
    """The worker processes of a sampler. If a worker process dies, its part of the rollout becomes invalid, and a
    replacement joins at the beginning of a later rollout."""

    def __init__(self, setup: EngineSetup, config: PoolConfig):
        grouping = setup.grouping
        self.setup = setup
        self.grouping = grouping
        self.config = config
        self._seed = setup.seed
        self._memory = PoolMemory(setup.spec, grouping, setup.T, setup.buffers)
        self.buffers = self._memory.buffers
        self._event = EventFd()
        self._group_events = [EventFd() for _ in range(grouping.groups)] if grouping.dedicated_workers else []
        self._side = ServerSide(self._memory.counters.arrays, self._event, config.spins, self._group_events)
        # The lock guards the set of active worker processes, because inference threads send requests in parallel.
        self._changing = threading.Lock()
        self._guard = Guard() if setup.env.id else None  # Atari games start no processes, and need no guard.
        self._workers: list[WorkerProcess | None] = [None] * grouping.workers
        self._history = [History() for _ in range(grouping.workers)]

    # -- processes ------------------------------------------------------------

    def start(self, restore: bool = False) -> None:
        """Start all workers, and wait until they are ready. With `restore`, no episodes begin, because the caller then
        restores the environments' states."""
        for w in range(self.grouping.workers):
            self._launch(w, start=not restore)
        self._until_ready()

    def _launch(self, w: int, start: bool = True) -> WorkerProcess:
        event, groups = EventFd(), self.grouping.groups_of(w)
        answers_to = self._group_events[groups[0]] if self._group_events else self._event
        variables = self._guard.variables(str(w)) if self._guard is not None else {}
        worker = WorkerProcess.launch(w, event, {*self._memory.fds, *answers_to.fds}, variables)
        self._workers[w] = worker
        # The counters must be reset before the worker process reads them.
        self._side.attach(w, event, worker.control)
        worker.set_up(self._setup(w, start, event, answers_to))
        return worker

    def _setup(self, w: int, start: bool, event: EventFd, answers_to: EventFd) -> WorkerSetup:
        c, setup = self.config, self.setup
        slices = [self.grouping.part(w, g) for g in self.grouping.groups_of(w)]
        return WorkerSetup(
            worker=w,
            parent_pid=os.getpid(),
            core=c.cores[w],
            nice=c.nice,
            spins=c.spins,
            env=asdict(setup.env),
            training=setup.training,
            reset=setup.reset,
            decorrelation_steps=setup.decorrelation_steps,
            starts_file=setup.starts_file,
            environments=self.grouping.B,
            first_index=setup.first_index,
            start=start,
            groups=list(self.grouping.groups_of(w)),
            slices=[(b.start, b.stop) for b in slices],
            seeds=self._seeds(w),
            stack=setup.spec.stack,
            buffers=setup.buffers,
            rollout_layout=self._memory.rollout_layout,
            rollout_fd=self._memory.rollouts.fd,
            counters_layout=self._memory.counters_layout,
            counters_fd=self._memory.counters.fd,
            event=event.fds,
            server_event=answers_to.fds,
        )

    def _seeds(self, w: int) -> list[list[int]]:
        first, generation = self.setup.first_index, self._history[w].generation
        slices = [self.grouping.part(w, g) for g in self.grouping.groups_of(w)]
        return [[env_seed(self._seed, first + i, generation) for i in range(b.start, b.stop)] for b in slices]

    def _until_ready(self) -> None:
        while not all(x is not None and x.is_ready for x in self._workers):
            for w in self._side.wait_control(min(self.config.start_timeout_s / 4, SLICE_S)):
                self._on_message(w)
            self._replace_late()

    def _replace_late(self) -> None:
        limit = self.config.start_timeout_s
        for worker in [x for x in self._workers if x is not None and x.is_late(limit)]:
            worker.process.kill()
            self._on_death(worker.index, how=f"was killed after --sampler.start-timeout-s {limit:g}")

    def _on_message(self, w: int) -> None:
        worker = self._worker(w)
        try:
            reply, _ = worker.control.receive()
        except Disconnected:
            self._on_death(w)
            return
        if reply.error and self.config.on_error == "restart":
            logger.warning(f"worker {w} (pid {worker.pid}): {reply.error}")
            self._on_death(w)
            return
        worker.check(reply)
        if reply.is_ready:
            worker.is_ready = True
            self._history[w].failed_starts = 0

    def _on_death(self, w: int, restore: bool = False, how: str = "") -> None:
        """Log how a worker process ended (`how`, by default its exit code), and replace the process. With `restore`,
        the replacement begins no episodes. Raises RunError with --strict, or if the worker has died too often."""
        worker, history = self._worker(w), self._history[w]
        line, was_ready = worker.obituary(how), worker.is_ready
        with self._changing:
            self._discard(worker)
        if self._guard is not None:
            self._guard.kill(str(w))
        if self.config.strict:
            raise RunError(line + "; --strict: stopping")
        env = self.setup.env.game or self.setup.env.id
        if not was_ready:
            history.failed_starts += 1
            if history.failed_starts >= MAX_FAILED_STARTS:
                raise RunError(f"{line} before it was ready, {MAX_FAILED_STARTS} times in a row: it steps {env}")
        history.deaths_in_a_row += 1
        if history.deaths_in_a_row >= MAX_DEATHS_IN_A_ROW:
            raise RunError(
                f"{line}, {MAX_DEATHS_IN_A_ROW} times in a row: it steps {env}, without a whole rollout in between"
            )
        if history.deaths_in_a_row == WARNED_DEATHS:
            logger.warning(
                f"worker {w} has died {WARNED_DEATHS} times in a row, without a whole rollout in between: it is "
                f"replaced; the run ends after {MAX_DEATHS_IN_A_ROW} deaths in a row"
            )
        history.generation += 1
        with self._changing:
            replacement = self._launch(w, start=not restore)
        logger.warning(f"{line}: its part of the rollout is dropped, pid {replacement.pid} takes its place")

    def _discard(self, worker: WorkerProcess) -> None:
        self._side.detach(worker.index, worker.control)
        worker.close()
        self._workers[worker.index] = None

    def pids(self) -> list[int]:
        return [x.pid for x in self._workers if x is not None]

    def _worker(self, w: int) -> WorkerProcess:
        worker = self._workers[w]
        assert worker is not None
        return worker

    # -- rollouts ------------------------------------------------------------

    def check(self) -> None:
        for w in self._side.check():
            self._on_message(w)
        self._replace_late()

    def join(self) -> list[int]:
        self.check()
        while not any(x is not None and x.is_ready for x in self._workers):
            self._until_ready()
        for worker in self._workers:
            if worker is not None and worker.has_joined:  # A worker that has joined has completed a rollout.
                self._history[worker.index].deaths_in_a_row = 0
        joined = [x for x in self._workers if x is not None and x.is_ready and not x.has_joined]
        for worker in joined:
            worker.has_joined = True
        return [worker.index for worker in joined]

    def absent(self) -> list[slice]:
        gone = [w for w, x in enumerate(self._workers) if x is None or not x.has_joined]
        return [self.grouping.part(w, g) for w in gone for g in self.grouping.groups_of(w)]

    def release(self, group: int, step_index: int, n: int = 1, workers: list[int] | None = None) -> None:
        with self._changing:
            for w in self.grouping.workers_of(group):
                worker = self._workers[w]
                if worker is not None and worker.has_joined and (workers is None or w in workers):
                    self._side.release(w, group, step_index, n)

    def wait(self, groups: Sequence[int], ahead: int = 0) -> int:
        while True:
            self._handle(lambda: self._side.wait(groups, self.config.timeout_s, ahead))
            if (ready := self._side.ready(groups, ahead)) is not None:
                return ready

    def is_ready(self, group: int) -> bool:
        return self._side.ready((group,), 0) is not None

    def wait_alone(self, group: int, stopped: Callable[[], bool]) -> bool:
        """In a group's inference thread, wait until the group is ready. Return False if `stopped()` becomes true during
        the wait. While threads wait in `wait_alone`, another thread must call `oversee`."""
        return self._side.wait_alone(group, stopped)

    def oversee(self, is_over: Callable[[], bool]) -> None:
        """Until `is_over()` is true, handle worker processes that die or hang while inference threads wait for them."""
        while not is_over():
            self._handle(lambda: self._side.watch(self.config.timeout_s))

    def wake(self) -> None:
        self._side.wake()

    def wake_all(self) -> None:
        self._side.wake_all()

    def _handle(self, wait: Callable[[], list[int]]) -> None:
        try:
            for w in wait():
                self._on_message(w)
        except WorkersSilent as e:
            for w in e.workers:  # A hung worker is killed, and then replaced like any dead worker.
                worker = self._workers[w]
                if worker is not None:
                    logger.warning(f"{e}: killing pid {worker.pid}")
                    worker.process.kill()
                    self._on_death(w)

    # -- states ------------------------------------------------------------

    def _ask_all(self, kind: str) -> list[tuple[Reply, bytes]]:
        """Send a request to all workers, and return their replies, except those of workers that are lost and replaced
        during the call."""
        self._until_ready()
        replies = []
        for w in range(self.grouping.workers):
            try:
                replies.append(self._worker(w).ask(Request(kind), self.config.timeout_s))
            except WorkerLost:
                self._on_death(w)
        return replies

    def late_resets(self) -> int:
        return sum(reply.late_resets for reply, _ in self._ask_all("late_resets"))

    def get_state(self) -> list[bytes]:
        replies = self._ask_all("get_state")
        if not all(x is not None and x.has_joined for x in self._workers):
            raise WorkersReplaced
        states: list[bytes] = [b""] * self.grouping.B
        for w, (reply, blob) in enumerate(replies):
            begin = 0
            for g, sizes in zip(self.grouping.groups_of(w), reply.sizes, strict=True):
                for i, size in enumerate(sizes):
                    states[self.grouping.part(w, g).start + i] = blob[begin : begin + size]
                    begin += size
        return states

    def set_state(self, states: list[bytes]) -> None:
        """Restore the environments' states. A worker process that dies during the call is replaced."""
        time_out = patience_s(self.config.timeout_s) + sum(map(len, states)) / REPLAYED_BYTES_PER_S
        waiting = set(range(self.grouping.workers))
        while waiting:
            self._until_ready()
            told = [w for w in sorted(waiting) if self._completes(w, lambda w: self._tell_state(w, states))]
            waiting -= {w for w in told if self._completes(w, lambda w: self._worker(w).answer("set_state", time_out))}

    def _tell_state(self, w: int, states: list[bytes]) -> None:
        groups = [states[self.grouping.part(w, g)] for g in self.grouping.groups_of(w)]
        sizes = tuple(tuple(len(s) for s in group) for group in groups)
        blob = b"".join(s for group in groups for s in group)
        self._worker(w).tell(Request("set_state", sizes), self.config.timeout_s, blob)

    def _completes(self, w: int, exchange: Callable[[int], object]) -> bool:
        """Call `exchange(w)`. If worker w dies during the call, replace it by a worker that begins no episodes, and
        return False."""
        try:
            exchange(w)
            return True
        except WorkerLost:
            self._on_death(w, restore=True)
            return False

    def reseed(self, seed: int) -> None:
        """Create the environments again with another seed, in the same worker processes. A worker process that dies
        during the call is replaced; with --strict, RunError is raised instead."""
        self.check()
        self._until_ready()
        self._seed, self._history = seed, [History() for _ in self._workers]
        for w in range(self.grouping.workers):
            with contextlib.suppress(Disconnected):
                self._worker(w).control.send(Request("reseed", seeds=tuple(map(tuple, self._seeds(w)))))
        for w in range(self.grouping.workers):
            worker = self._worker(w)
            worker.has_joined = False
            try:
                reply, _ = worker.control.receive(self.config.start_timeout_s)
            except Disconnected:
                # `_on_death` increments the generation to 0, the generation of all workers after a reseed.
                self._history[w].generation = -1
                self._on_death(w)
                continue
            worker.check(reply)
        self._until_ready()

    def env_seconds(self) -> list[float]:
        """Return the seconds that each worker process has spent on stepping its environments."""
        return [float(ns) / 1e9 for ns in self._memory.counters["env_ns"][:, 0]]

    def close(self) -> None:
        """End all worker processes. A process is killed if its environments have not closed within timeout_s, or within
        CLOSE_TIMEOUT_S if the process is still starting."""
        workers = [x for x in self._workers if x is not None]
        for worker in workers:
            with contextlib.suppress(Disconnected):
                worker.control.send(Request("close"))
        began = time.monotonic()
        for worker in workers:
            limit = patience_s(self.config.timeout_s) if worker.is_ready else CLOSE_TIMEOUT_S
            if not worker.ends(max(0.0, began + limit - time.monotonic())):
                line = f"worker {worker.index} (pid {worker.pid}) has not closed its environments within {limit:g} s"
                if worker.is_ready:
                    logger.warning(f"{line}: it is killed")
                worker.process.kill()
                worker.process.wait()
            self._discard(worker)
        if self._guard is not None:
            self._guard.close()
        for event in (self._event, *self._group_events):
            event.close()
        self._memory.close()
