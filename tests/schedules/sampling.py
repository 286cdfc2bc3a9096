"""Simulates a sampler with worker processes, which may be killed or hang at any point.

Rollouts must equal those of the serial engine, except for environments whose worker process was replaced.
"""

import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from unittest import mock

import numpy as np
from torch import Tensor, nn

from accel_rl.data.rollout import Rollout
from accel_rl.data.rollout_arrays import Step
from accel_rl.data.shared_memory import Layout, SharedArrays
from accel_rl.data.spec import EnvSpec
from accel_rl.envs.make import ResolvedEnv
from accel_rl.envs.sequential import SequentialEnv
from accel_rl.processes import process
from accel_rl.samplers import in_process
from accel_rl.samplers.engine import Engine, EngineSetup
from accel_rl.samplers.grouping import Grouping
from accel_rl.samplers.in_process import InProcessEngine
from accel_rl.samplers.inference import threads
from accel_rl.samplers.inference.threads import InferenceThreads
from accel_rl.samplers.sampler import Sampler
from accel_rl.samplers.workers import channel, pool, worker, worker_process
from accel_rl.samplers.workers.control import Control
from accel_rl.samplers.workers.messages import WorkerSetup
from accel_rl.samplers.workers.pool import PoolConfig, WorkerPool
from accel_rl.samplers.workers.worker_process import WorkerProcess
from tests.schedules.system import SimulatedProcess, System, replaced, socket_pair
from tests.schedules.threads import Threads
from tests.schedules.world import World

SPEC = EnvSpec("tiny", (2,), "float32", 3)
ENV = ResolvedEnv(id="tiny", randomness="noops")
T, TIMEOUT_S = 3, 0.2


class TinyEnv:
    """A small environment. The seed and the actions determine observations, rewards and ends of episodes."""

    spec = SPEC

    def __init__(self, seed: int, point: Callable[[], None]) -> None:
        self.seed, self.point = seed, point
        self.episode, self.t, self.sum = -1, 0, 0

    def reset(self, frame: np.ndarray, episode: int | None = None) -> None:
        self.episode = self.episode + 1 if episode is None else episode
        self.t = self.sum = 0
        self._observe(frame)

    def step(self, action: int, frame: np.ndarray) -> tuple[float, bool, bool, bool]:
        self.point()
        self.t += 1
        self.sum += (action + 1) * self.t
        self._observe(frame)
        over = self.t >= 2 + (self.seed + self.episode) % 4
        return float(self.sum), over, False, over

    def _observe(self, frame: np.ndarray) -> None:
        frame[:] = (self.seed * 31 + self.episode * 7 + self.sum) % 101, self.t

    def get_state(self) -> bytes:
        return json.dumps([self.seed, self.episode, self.t, self.sum]).encode()

    def set_state(self, state: bytes) -> None:
        self.seed, self.episode, self.t, self.sum = json.loads(state)

    def close(self) -> None:
        pass


class TinyAgent:
    """An agent whose actions depend only on observations and random numbers."""

    needs_obs, reentrant, state_size = True, True, 0

    def __init__(self, before: Callable[[slice], None], after: Callable[[slice], None]) -> None:
        self.model, self._before, self._after = nn.Identity(), before, after

    def act(self, obs: Tensor, uniform: Tensor, memory: None = None, b: slice = slice(None)) -> tuple[Tensor, dict]:
        self._before(b)
        action = ((obs.sum(-1) * 7 + uniform * 30).long()) % SPEC.n_actions
        self._after(b)
        return action, {}

    def evaluating(self, greedy: bool = False) -> "TinyAgent":
        return self

    def state_dict(self) -> dict:
        return {}

    def load_state_dict(self, state: dict) -> None:
        pass


class NotedEnvs(SequentialEnv):
    """The environments of a simulated worker process, whose reads of actions and writes of observations are
    recorded."""

    def __init__(self, sampling: "Sampling", setup: WorkerSetup, first: int, seeds: list[int]) -> None:
        super().__init__([TinyEnv(seed, sampling.world.point) for seed in seeds], setup.reset, 0, seeds)
        self._sampling, self._world, self._first = sampling, sampling.world, first
        self._name = ("observations", first, sampling.generations[first])

    def send(self, action: np.ndarray) -> None:
        self._world.check_read(("actions", self._first))
        super().send(action)

    def recv(self, out: Step) -> None:
        super().recv(out)
        self._world.written(self._name)

    def reset_waiting(self, out: Step) -> None:
        super().reset_waiting(out)
        self._world.written(self._name)


class Sampling:
    """Simulates one sampler with its worker processes."""

    def __init__(self, world: World, faults: int) -> None:
        """The simulation kills or freezes at most `faults` worker processes."""
        self.world, self.system, self.threads = world, System(world), Threads(world)
        rng = world.rng
        self.reset = rng.choice(("immediate", "wait"))
        self.grouping = self._grouping(rng)
        self.spins = rng.choice((0, 0, 3))
        self.generations: Counter[int] = Counter()
        self.replaced: set[int] = set()
        """Environments whose worker was killed or frozen."""
        self._faults, self._rate = faults, rng.choice((0.0, 0.002, 0.01))
        world.on_point = self._maybe_fault
        self._ahead = 0  # The number of rollouts that began before they were requested, and have ended.
        self.plan = [rng.choice(self.steps) for _ in range(4)]

    steps: tuple[str, ...] = ("collect", "collect", "collect", "state", "check")
    """Possible calls in the plan of a simulation."""

    def _grouping(self, rng: random.Random) -> Grouping:
        groups, workers = rng.choice((1, 2)), rng.choice((1, 2, 3))
        return Grouping(groups * workers * rng.choice((1, 2)), groups, workers)

    def main(self) -> None:
        """Make random calls of the sampler, and compare each result with that of the serial engine."""
        with self._simulated():
            setup = self._setup()
            engine = WorkerPool(
                setup,
                PoolConfig(
                    (None,) * self.grouping.workers, timeout_s=TIMEOUT_S, start_timeout_s=TIMEOUT_S, spins=self.spins
                ),
            )
            sampler = self._sampler(engine, self._inference(engine))
            agent = TinyAgent(self._check, self._wrote)
            expected = self._expected()
            try:
                for step in self.plan:
                    rollout = self._do(sampler, agent, step)
                    self._compare(step, next(expected), rollout)
            finally:
                if not self.world.is_over:
                    sampler.close()

    def _setup(self) -> EngineSetup:
        return EngineSetup(ENV, SPEC, self.grouping, T, 5, reset=self.reset)

    def _inference(self, engine: WorkerPool) -> InferenceThreads | None:
        return None

    def _sampler(self, engine: Engine, inference: InferenceThreads | None = None) -> Sampler:
        return Sampler(engine, SPEC, 5, reset=self.reset, threads=inference)

    def _expected(self) -> Iterator[dict[str, np.ndarray]]:
        def make(config: ResolvedEnv, seeds: list[int], *_: object) -> SequentialEnv:
            return SequentialEnv([TinyEnv(seed, lambda: None) for seed in seeds], self.reset, 0, seeds)

        with mock.patch.object(in_process, "make_batch", make):
            sampler = self._sampler(InProcessEngine(self._setup()))
        agent = TinyAgent(lambda b: None, lambda b: None)
        for step in self.plan:
            result = self._do(sampler, agent, step)
            for _ in range(self._ahead if step == "rollouts" else 0):
                sampler.collect(agent)
            yield result

    def _do(self, sampler: Sampler, agent: TinyAgent, step: str) -> dict[str, np.ndarray]:
        if step == "check":
            sampler.check()
            return {}
        if step == "state":
            state = sampler.state_dict()
            return {"envs": np.array(state["envs"], object)[None], "age": state["age"][None]}
        if step == "collect":
            return _arrays(sampler.collect(agent))
        with mock.patch.object(sampler, "_draw", mock.Mock(side_effect=sampler._draw)) as draws:
            rollouts = sampler.rollouts(agent, fixed=True)
            arrays = [_arrays(rollout) for rollout in itertools.islice(rollouts, 2)]
            rollouts.close()  # type: ignore[attr-defined]
        if isinstance(sampler.engine, WorkerPool):
            self._ahead = draws.call_count - 2
        return {f"{i}/{name}": x for i, one in enumerate(arrays) for name, x in one.items()}

    def _compare(self, step: str, expected: dict[str, np.ndarray], actual: dict[str, np.ndarray]) -> None:
        unharmed = [i for i in range(self.grouping.B) if i not in self.replaced]
        for name, value in expected.items():
            if not np.array_equal(value[:, unharmed], actual[name][:, unharmed]):
                raise AssertionError(f"{step}: {name} differs from the serial engine's")
        if step == "collect":
            self._check_transitions(actual)
        for i in range(2 if step == "rollouts" else 0):
            of_rollout = {name: x for name, x in actual.items() if name.startswith(f"{i}/")}
            self._check_transitions({name.partition("/")[2]: x for name, x in of_rollout.items()})

    def _check_transitions(self, x: dict[str, np.ndarray]) -> None:
        """Check that `TinyEnv` could have made each valid step, including those of replaced worker processes."""
        before, after = x["frames"][:-1], x["frames"][1:]
        goes_on = x["valid"] & ~x["ended"]
        count = after[..., 1] == before[..., 1] + 1
        total = (after[..., 0] - before[..., 0] - (x["action"] + 1) * after[..., 1]) % 101 == 0
        if not (count & total)[goes_on].all():
            raise AssertionError("collect: a valid step was not made by an environment")

    # Shared data

    def _check(self, b: slice) -> None:
        for first in self._parts(b):
            self.world.check_read(("observations", first, self.generations[first]))

    def _wrote(self, b: slice) -> None:
        for first in self._parts(b):
            self.world.written(("actions", first))

    def _parts(self, b: slice) -> list[int]:
        grouping = self.grouping
        every = [grouping.part(w, g) for w in range(grouping.workers) for g in grouping.groups_of(w)]
        return [part.start for part in every if b.start <= part.start < b.stop]

    # Simulated processes

    def _simulated(self) -> ExitStack:
        system = self.system

        def launch(index: int, event: object, fds: set[int], variables: object = None) -> WorkerProcess:
            ours, theirs = socket_pair(system)
            main = SimulatedProcess(system, f"worker {index}", lambda: worker.run(Control(theirs)), theirs)
            return WorkerProcess(index, main, Control(ours), event)

        memory: dict[int, SharedArrays] = {}

        def create(layout: Layout) -> SharedArrays:
            # Simulated processes use the same mapping, so that each word of shared memory has one address.
            arrays = SharedArrays.create(layout)
            memory[arrays.fd] = arrays
            return arrays

        def batch(setup: WorkerSetup, first: int, seeds: list[int]) -> SequentialEnv:
            return NotedEnvs(self, setup, first, seeds)

        return replaced(
            (channel, "EventFd", system.event), (channel, "select", system.select), (channel, "os", system.os),
            (channel, "time", system.time), (channel, "_cells", system.cells), (pool, "EventFd", system.event),
            (pool, "time", system.time), (process, "time", system.time), (worker_process, "time", system.time),
            (worker, "EventFd", system.event),
            (worker, "die_with_parent", lambda pid: None), (worker, "_batch", batch),
            (worker, "_close_in_forks", lambda *_: None), (pool, "Guard", lambda: None),
            (pool, "threading", self.threads.threading), (threads, "ThreadPoolExecutor", self.threads.pool),
            (threads, "Event", self.threads.flag), (threads, "wait", self.threads.wait),
            (pool.WorkerProcess, "launch", launch), (pool, "SharedArrays", SimpleNamespace(create=create)),
            (worker, "SharedArrays", SimpleNamespace(attach=lambda layout, fd: memory[fd])),
        )  # fmt: skip

    def _maybe_fault(self) -> None:
        if self._faults <= 0 or self.world.rng.random() >= self._rate:
            return
        living = [p for p in self.system.processes if p.returncode is None]
        if not living:
            return
        victim = self.world.rng.choice(living)
        self._faults -= 1
        index = int(victim.actor.name.split()[1])
        for g in self.grouping.groups_of(index):
            part = self.grouping.part(index, g)
            self.replaced.update(range(part.start, part.stop))
            self.generations[part.start] += 1
        if self.world.rng.random() < 0.7:
            victim.kill()
        else:
            victim.actor.frozen_until = self.world.now + self.world.rng.choice((0.001, 0.1, 1e9))


class ThreadedSampling(Sampling):
    """Simulates one sampler in which each group of worker processes has its own inference thread."""

    steps = ("collect", "rollouts", "rollouts", "state")

    def _grouping(self, rng: random.Random) -> Grouping:
        workers = rng.choice((2, 2, 4))
        return Grouping(workers * rng.choice((1, 2)), 2, workers, dedicated_workers=True)

    def _inference(self, engine: WorkerPool) -> InferenceThreads | None:
        return InferenceThreads(engine, [()] * self.grouping.groups, 1)


def _arrays(rollout: Rollout) -> dict[str, np.ndarray]:
    names = ("frames", "age", "action", "reward", "terminated", "ended", "valid")
    return {name: getattr(rollout, name).numpy().copy() for name in names}
