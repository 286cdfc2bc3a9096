"""The worker processes of one sampler: started, watched, replaced when they die, ended with it."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from accel_rl.data.rollout_arrays import RolloutArrays, rollout_layout
from accel_rl.data.shared_memory import Layout, SharedArrays
from accel_rl.data.spec import EnvSpec
from accel_rl.envs.make import EnvConfig
from accel_rl.kernels.run_steps import gate, rounds
from accel_rl.samplers.grouping import Grouping, env_seed
from accel_rl.samplers.workers.channel import ServerSide, Silent, counters_layout
from accel_rl.samplers.workers.control import Control, Disconnected
from accel_rl.samplers.workers.event_fd import EventFd
from accel_rl.samplers.workers.stepper import BUFFERS
from accel_rl.system.errors import RunError
from accel_rl.system.patience import Patience

START_TIMEOUT_S = 120.0
MAX_FAILED_STARTS = 3
# of states, at least: an episode that is played again to its state has a byte for each action
REPLAYED_BYTES_PER_S = 500


@dataclass(slots=True)
class PoolConfig:
    """How the processes of a sampler behave."""

    cores: tuple[int | None, ...]  # one entry a worker
    training: bool = True
    reset: str = "immediate"
    decorrelation_steps: int = 0
    strict: bool = False  # a dead worker ends the run instead of being replaced
    timeout_s: float = 60.0  # a worker that owes an answer for longer counts as hung
    nice: int = 0
    spins: int = 0
    first_index: int = 0  # of this rank's environments among all


@dataclass(slots=True)
class _Worker:
    index: int
    process: subprocess.Popen
    control: Control
    bell: EventFd
    ready: bool = False
    joined: bool = False


@dataclass(slots=True)
class _History:
    """What a worker's place has been through, over its processes."""

    generation: int = 0
    failed_starts: int = 0


class WorkerPool:
    """Worker processes that step the environments of every group. A dead one is seen at once, its cells are marked
    invalid for the rollout, and a new one with fresh environments joins at the beginning of a later rollout."""

    def __init__(
        self,
        env: EnvConfig,
        spec: EnvSpec,
        grouping: Grouping,
        T: int,
        seed: int,
        config: PoolConfig,
        log: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
    ):
        self.grouping, self.config = grouping, config
        self._env, self._spec, self._seed, self._log = env, spec, seed, log
        self._layout: Layout = {}
        for i in range(BUFFERS):
            self._layout |= rollout_layout(spec, T, grouping.B, prefix=f"{i}/")
        self._memory = SharedArrays.create(self._layout)
        self.buffers = [RolloutArrays.of(self._memory.arrays, spec.stack, prefix=f"{i}/") for i in range(BUFFERS)]
        self._counters_layout = counters_layout(grouping.workers, grouping.groups)
        self._counters = SharedArrays.create(self._counters_layout)
        self._bell = EventFd()
        self._group_bells = [EventFd() for _ in range(grouping.groups)] if grouping.own else []
        self._side = ServerSide(self._counters.arrays, self._bell, config.spins, self._group_bells)
        self._changing = gate()  # who takes part; groups are released from threads of their own
        self._workers: list[_Worker | None] = [None] * grouping.workers
        self._history = [_History() for _ in range(grouping.workers)]

    # -- a process's life ------------------------------------------------------------

    def start(self, restore: bool = False) -> None:
        """Start all and wait until they are ready; with `restore` their states are set next, so none plays a start."""
        for w in range(self.grouping.workers):
            self._launch(w, start=not restore)
        self._until_ready()

    def _launch(self, w: int, start: bool = True) -> None:
        ours, theirs = socket.socketpair()
        bell, control = EventFd(), Control(ours)
        groups = self.grouping.groups_of(w)
        answers_to = self._group_bells[groups[0]] if self._group_bells else self._bell
        fds = {theirs.fileno(), self._memory.fd, self._counters.fd, *bell.fds, *answers_to.fds}
        process = subprocess.Popen(
            [sys.executable, "-m", "accel_rl.samplers.workers.worker", str(theirs.fileno())],
            pass_fds=sorted(fds),
            stdin=subprocess.DEVNULL,
            env=_worker_environment(),
        )
        self._workers[w] = _Worker(w, process, control, bell)
        self._side.attach(w, bell, control)
        generation = self._history[w].generation
        slices = [self.grouping.part(w, g) for g in groups]
        first = self.config.first_index
        # A worker that died already is noticed by the one that listens next.
        with contextlib.suppress(Disconnected):
            control.send(
                {
                    "worker": w,
                    "parent_pid": os.getpid(),
                    "sys_path": [p or os.getcwd() for p in sys.path],
                    "core": self.config.cores[w],
                    "nice": self.config.nice,
                    "spins": self.config.spins,
                    "env": asdict(self._env),
                    "training": self.config.training,
                    "reset": self.config.reset,
                    "decorrelation_steps": self.config.decorrelation_steps,
                    "start": start,
                    "groups": list(groups),
                    "slices": [[b.start, b.stop] for b in slices],
                    "seeds": [
                        [env_seed(self._seed, first + i, generation) for i in range(b.start, b.stop)] for b in slices
                    ],
                    "stack": self._spec.stack,
                    "rollout_layout": self._layout,
                    "rollout_fd": self._memory.fd,
                    "counters_layout": self._counters_layout,
                    "counters_fd": self._counters.fd,
                    "bell": bell.fds,
                    "server_bell": answers_to.fds,
                }
            )
        theirs.close()

    def _until_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        patience = Patience(timeout_s)
        while waiting := [w for w, x in enumerate(self._workers) if x is None or not x.ready]:
            if patience.over:
                raise RunError(f"worker {', '.join(map(str, waiting))} not ready within {timeout_s:g} s")
            for w in patience.spend(self._side.wait_control):
                self._hear(w)

    def _hear(self, w: int) -> None:
        """A worker has something to say, or is gone."""
        worker = self._workers[w]
        assert worker is not None
        try:
            message, _ = worker.control.receive()
        except Disconnected:
            self._bury(w)
            return
        if "error" in message:
            pid = worker.process.pid
            raise RunError(f"worker {w} (pid {pid}): {message['error'].strip()}")
        if message.get("ready"):
            worker.ready = True
            self._history[w].failed_starts = 0

    def _bury(self, w: int) -> None:
        """A worker's process is gone: say how, then replace it (or, if strict, stop)."""
        worker, history = self._workers[w], self._history[w]
        assert worker is not None
        code = _reap(worker.process)
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
        line = f"worker {w} (pid {worker.process.pid}) {how}"
        was_ready = worker.ready
        with self._changing:
            self._discard(worker)
        if self.config.strict:
            raise RunError(line + "; --strict: stopping")
        if not was_ready:
            history.failed_starts += 1
            if history.failed_starts >= MAX_FAILED_STARTS:
                raise RunError(f"{line} before it was ready, {MAX_FAILED_STARTS} times in a row")
        history.generation += 1
        with self._changing:
            self._launch(w)
        replacement = self._workers[w]
        assert replacement is not None
        self._log(f"{line}: its part of the rollout is dropped, pid {replacement.process.pid} takes its place")

    def _discard(self, worker: _Worker) -> None:
        self._side.detach(worker.index, worker.control)
        worker.control.close()
        worker.bell.close()
        self._workers[worker.index] = None

    def pids(self) -> list[int]:
        return [x.process.pid for x in self._workers if x is not None]

    # -- rollouts ------------------------------------------------------------

    def check(self) -> None:
        """Notice deaths and replacements that are ready, without waiting."""
        for w in self._side.check():
            self._hear(w)

    def join(self) -> list[int]:
        """At the beginning of a rollout: let those that are ready take part. Returns them."""
        self.check()
        while not any(x is not None and x.ready for x in self._workers):
            self._until_ready()
        joined = [w for w, x in enumerate(self._workers) if x is not None and x.ready and not x.joined]
        for w in joined:
            self._workers[w].joined = True  # type: ignore[union-attr]
        return joined

    def absent(self) -> list[slice]:
        """The environments that took no part in the whole rollout."""
        gone = [w for w, x in enumerate(self._workers) if x is None or not x.joined]
        return [self.grouping.part(w, g) for w in gone for g in self.grouping.groups_of(w)]

    def release(self, group: int, slot: int, n: int = 1, workers: list[int] | None = None) -> None:
        with self._changing:
            for w in self._playing(group):
                if workers is None or w in workers:
                    self._side.release(w, group, slot, n)

    def _playing(self, group: int) -> list[int]:
        return [w for w in self.grouping.workers_of(group) if (x := self._workers[w]) is not None and x.joined]

    def wait(self, groups: Sequence[int], ahead: int = 0) -> int:
        """Until every worker that takes part has done what one of the groups was asked -> that group. The last `ahead`
        slots may still be on their way."""
        while True:
            self._attend(lambda: self._side.wait(groups, self.config.timeout_s, ahead))
            if (ready := self._side.ready(groups, ahead)) is not None:
                return ready

    def wait_alone(self, group: int, stopped: Callable[[], bool]) -> bool:
        """The same for a group with workers of its own, in a thread; False if `stopped` comes true before. Meanwhile
        somebody has to `oversee`."""
        return self._side.wait_alone(group, stopped)

    def rounds(self, group: int, calls: Any, t: int, T: int, slot: int) -> int:
        """Steps t .. T - 1 of such a group, in one piece: each once the group is ready, the recorded `calls` that act
        for it, and the release of slot + t. Returns the first step that was not taken, since who takes part is others,
        or somebody was to look (`interrupt`)."""
        with self._changing:
            as_of, wires = int(self._side.changes[0]), [self._side.wire(w, group) for w in self._playing(group)]
        bell = self._group_bells[group].read_fd
        return rounds(calls, self._changing, wires, bell, self._side.changes.ctypes.data, as_of, t, T, slot)

    def interrupt(self) -> None:
        """Whoever waits in one of these threads looks again."""
        self._side.changes += 1
        self._side.wake()

    def oversee(self, over: Callable[[], bool]) -> None:
        """While threads wait for the groups: see to workers that die or hang, until `over` (after a `wake`)."""
        while not over():
            self._attend(lambda: self._side.watch(self.config.timeout_s))

    def wake(self) -> None:
        """Who oversees looks again."""
        self._side.wake(all_=False)

    def _attend(self, wait: Callable[[], list[int]]) -> None:
        try:
            for w in wait():
                self._hear(w)
        except Silent as e:
            self._give_up_on(e.workers, str(e))

    def _give_up_on(self, workers: list[int], why: str) -> None:
        """A hung worker is killed, and then it is like any dead one."""
        for w in workers:
            worker = self._workers[w]
            if worker is not None:
                self._log(f"{why}: killing pid {worker.process.pid}")
                worker.process.kill()
                self._bury(w)

    # -- states ------------------------------------------------------------

    def late_resets(self) -> int:
        """Those of the workers that live; waits for workers that are being replaced."""
        self._until_ready()
        return sum(self._ask(w, {"kind": "late_resets"})[0]["late_resets"] for w in range(self.grouping.workers))

    def get_state(self) -> list[bytes]:
        """One per environment, in the order of b. Waits for workers that are being replaced."""
        states: list[bytes] = [b""] * self.grouping.B
        self._until_ready()
        for w in range(self.grouping.workers):
            message, blob = self._ask(w, {"kind": "get_state"})
            at = 0
            for g, sizes in zip(self.grouping.groups_of(w), message["sizes"], strict=True):
                for i, size in enumerate(sizes):
                    states[self.grouping.part(w, g).start + i] = blob[at : at + size]
                    at += size
        return states

    def set_state(self, states: list[bytes]) -> None:
        self._until_ready()
        for w in range(self.grouping.workers):
            groups = [states[self.grouping.part(w, g)] for g in self.grouping.groups_of(w)]
            sizes = [[len(s) for s in group] for group in groups]
            self._tell(w, {"kind": "set_state", "sizes": sizes}, b"".join(s for group in groups for s in group))
        for w in range(self.grouping.workers):
            self._answer(w, "set_state", self.config.timeout_s + sum(map(len, states)) / REPLAYED_BYTES_PER_S)

    def _ask(self, w: int, message: dict, blob: bytes = b"") -> tuple[dict, bytes]:
        self._tell(w, message, blob)
        return self._answer(w, message["kind"], self.config.timeout_s)

    def _tell(self, w: int, message: dict, blob: bytes) -> None:
        worker = self._workers[w]
        assert worker is not None
        with _talking(worker, message["kind"], self.config.timeout_s):
            worker.control.send(message, blob)

    def _answer(self, w: int, kind: str, timeout_s: float) -> tuple[dict, bytes]:
        worker = self._workers[w]
        assert worker is not None
        with _talking(worker, kind, timeout_s):
            answer, data = worker.control.receive()
        if "error" in answer:
            raise RunError(f"worker {w} (pid {worker.process.pid}): {answer['error'].strip()}")
        return answer, data

    def env_seconds(self) -> list[float]:
        """Per worker, how long its environments have been stepping since it started."""
        return [float(ns) / 1e9 for ns in self._counters["env_ns"][:, 0]]

    def close(self) -> None:
        """End every process, politely for two seconds."""
        workers = [x for x in self._workers if x is not None]
        for worker in workers:
            with contextlib.suppress(Disconnected):
                worker.control.send({"kind": "close"})
        deadline = time.monotonic() + 2.0
        for worker in workers:
            _reap(worker.process, max(0.0, deadline - time.monotonic()))
            self._discard(worker)
        for bell in (self._bell, *self._group_bells):
            bell.close()
        for memory in (self._memory, self._counters):
            memory.close()


@contextlib.contextmanager
def _talking(worker: _Worker, kind: str, timeout_s: float) -> Iterator[None]:
    """RunError if the worker is lost, or takes longer than that."""
    try:
        worker.control.sock.settimeout(timeout_s)
        yield
        worker.control.sock.settimeout(None)
    except Disconnected as e:
        code = _reap(worker.process)
        w, pid = worker.index, worker.process.pid
        raise RunError(f"worker {w} (pid {pid}) was lost at {kind} (code {code})") from e


def _reap(process: subprocess.Popen, timeout_s: float = 1.0) -> int:
    """The exit code; a process that has closed its socket but does not end is killed."""
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _worker_environment() -> dict[str, str]:
    """Workers compute with one thread: libraries in a user's environment must not start a pool on every core."""
    one = {k: "1" for k in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    return {**os.environ, **one}
