"""Simulates concurrent training, in which sampling and updates of a period are simultaneous, and may be interrupted.

The parameters that act, and the data of each update, must be the same as if sampling and training alternated.
"""

from collections.abc import Callable
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from accel_rl.metrics.update_metrics import UpdateMetrics
from accel_rl.training import concurrent
from accel_rl.training.concurrent import Concurrent
from tests.schedules.system import replaced
from tests.schedules.threads import Threads
from tests.schedules.world import World

T, B = 2, 2
PER_UPDATE = 2
"""Env steps per update."""


class Steps:
    """A rollout of the simulated sampler, with its number and its valid env steps."""

    def __init__(self, number: int, env_steps: int) -> None:
        self.number, self.env_steps = number, env_steps

    def state_dict(self) -> dict[str, int]:
        return vars(self)

    @staticmethod
    def from_state(state: dict[str, int], device: object) -> "Steps":
        return Steps(**state)


class Weight(nn.Module):
    """A network whose only parameter counts the learner's updates."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))


class TinyReplay:
    """An algorithm whose replay is the list of stored rollouts."""

    def __init__(self) -> None:
        self.model, self.target, self.stored, self.budget_steps = Weight(), Weight(), list[int](), 0
        self.communicator: Any = SimpleNamespace(size=1, count=lambda n: n)
        self.now: Any = SimpleNamespace(
            progress=0.0, env_steps=0, counted=SimpleNamespace(of_batch=0), count=self._count, set=lambda values: None
        )
        self.agent: Any = SimpleNamespace(epsilon=0.0)
        self.target_network: Any = SimpleNamespace(update=self._update_target)

    device = torch.device("cpu")
    reward_norm = None  # --normalize-rewards false.

    def _count(self, env_steps: int) -> None:
        self.now.env_steps += env_steps
        self.now.counted.of_batch = env_steps

    def _update_target(self) -> None:
        self.target.load_state_dict(self.model.state_dict())

    def schedules(self, progress: float, env_steps: int) -> dict[str, float]:
        return {"epsilon": float(env_steps)}

    def behaviour(self) -> Any:
        return SimpleNamespace(model=Weight(), epsilon=0.0)

    def owe(self, env_steps: int) -> int:
        self.budget_steps += env_steps
        return env_steps

    def store(self, rollout: Steps) -> None:
        self.stored.append(rollout.number)


class Periods:
    """Simulates concurrent training."""

    def __init__(self, world: World, faults: int) -> None:
        """The simulation interrupts training at most `faults` times."""
        self.world, self.threads, self._faults = world, Threads(world), faults
        rng = world.rng
        self.periods, self.rollouts = rng.randint(1, 4), rng.randint(1, 3)
        self.sizes = [rng.choice((T * B, T * B, 2)) for _ in range(self.periods * self.rollouts)]
        """The valid env steps of each rollout. With --sampler.reset wait, some steps are skipped."""
        self.algo, self.acted, self.learned = TinyReplay(), list[tuple[int, float, float]](), list[tuple[int, ...]]()
        self._is_interrupted, self._rate = False, rng.choice((0.0, 0.01, 0.05))
        world.on_point = self._maybe_interrupt

    def main(self) -> None:
        """Run all concurrent periods, and compare their actions and updates with those of alternating sampling and
        training."""
        with self._simulated():
            schedule = self._schedule()
            done = 0
            while done < self.periods:
                self._is_interrupted = False
                env_steps, _ = schedule.cycle(10**9)
                if env_steps:
                    done += 1
                elif self.world.rng.random() < 0.5:  # Another process may resume the run.
                    schedule.close()
                    state, schedule = schedule.state_dict(), self._schedule()
                    schedule.load_state_dict(state)
            schedule.close()
        acted, learned = self._expected()
        if self.acted != acted:
            raise AssertionError(f"the sampler acted {self.acted}, not {acted}")
        if self.learned != learned:
            raise AssertionError(f"the updates read {self.learned}, not {learned}")

    def _expected(self) -> tuple[list[tuple[int, float, float]], list[tuple[int, ...]]]:
        acted: list[tuple[int, float, float]] = []
        learned: list[tuple[int, ...]] = []
        env_steps, updates, budget, stored = 0, 0, 0, list[int]()
        for p in range(self.periods):
            numbers = list(range(p * self.rollouts, (p + 1) * self.rollouts))
            behaviour, staged = updates if p else 0, 0
            for number in numbers:
                acted.append((number, float(behaviour), float(env_steps + staged)))
                staged += self.sizes[number]
            budget += self.rollouts * T * B
            while budget >= PER_UPDATE:
                budget -= PER_UPDATE
                updates += 1
                learned.append((updates, *stored))
            budget -= self.rollouts * T * B - staged
            env_steps += staged
            stored += numbers
        return acted, learned

    # Simulated collaborators

    def _schedule(self) -> Concurrent:
        sampler: Any = SimpleNamespace(
            T=T, B=B, buffers=self.rollouts + 1, collect=self._collect, check=self.world.point
        )
        learner: Any = SimpleNamespace(
            algo=self.algo, learn=self._learn,
            gradient_sync=SimpleNamespace(skips=SimpleNamespace(seen_in_a_row=0)),
        )  # fmt: skip
        schedule = Concurrent(sampler, learner, period=self.rollouts * T * B)
        schedule.interrupted = self._interrupted  # type: ignore[method-assign]
        return schedule

    def _interrupted(self) -> bool:
        self.world.point()
        return self._is_interrupted

    def _collect(self, behaviour: Any) -> Steps:
        number = len(self.acted)
        for _ in range(T):
            self.world.point()
        self.acted.append((number, float(behaviour.model.weight.detach()), behaviour.epsilon))
        return Steps(number, self.sizes[number])

    def _learn(self, pause: Callable[[], bool]) -> list[UpdateMetrics]:
        metrics: list[UpdateMetrics] = []
        while self.algo.budget_steps >= PER_UPDATE and not (metrics and pause()):
            self.algo.budget_steps -= PER_UPDATE
            self.world.point()
            with torch.no_grad():
                self.algo.model.weight += 1
            self.learned.append((int(self.algo.model.weight.detach()), *self.algo.stored))
            self.world.point()
            metrics.append(UpdateMetrics(("loss",), torch.zeros(1, dtype=torch.float64), 1))
        return metrics

    def _simulated(self) -> ExitStack:
        values = {
            "ThreadPoolExecutor": self.threads.pool, "wait": self.threads.wait, "threading": self.threads.threading,
            "Rollout": Steps, "copy_network": _copy, "load_network": _load,
            "network_state": lambda model: model.weight.detach().clone(), "_with_replay": lambda learner: learner.algo,
        }  # fmt: skip
        return replaced(*((concurrent, name, value) for name, value in values.items()))

    def _maybe_interrupt(self) -> None:
        if self._faults > 0 and self.world.rng.random() < self._rate:
            self._faults -= 1
            self._is_interrupted = True


def _copy(source: Weight, to: Weight) -> None:
    _load(to, source.weight.detach(), "")


def _load(model: Weight, weight: Tensor, name: str) -> None:
    with torch.no_grad():
        model.weight.copy_(weight)
