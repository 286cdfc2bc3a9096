"""The serial reference: environments stepped in this process, one group after the other, without signals."""

from collections.abc import Sequence

from accel_rl.data.rollout_arrays import RolloutArrays
from accel_rl.data.spec import EnvSpec
from accel_rl.envs.make import EnvConfig, make_batch
from accel_rl.envs.sequential import SequentialEnv
from accel_rl.envs.starts import StartOrder
from accel_rl.samplers.grouping import Grouping, env_seed
from accel_rl.samplers.workers.stepper import BUFFERS, GroupStepper


class InProcessEngine:
    """The same requests and buffers as `WorkerPool`, without processes, for tests and debugging."""

    def __init__(
        self,
        env: EnvConfig,
        spec: EnvSpec,
        grouping: Grouping,
        T: int,
        seed: int,
        *,
        training: bool = True,
        reset: str = "immediate",
        decorrelation_steps: int = 0,
        first_index: int = 0,
        buffers: int = BUFFERS,
        starts_file: str = "",
    ):
        self.grouping = grouping
        self.buffers = [RolloutArrays.zeros(spec, T, grouping.B) for _ in range(buffers)]
        self._joined = False

        def build(seed: int, g: int) -> SequentialEnv:
            b = grouping.group(g)
            seeds = [env_seed(seed, first_index + i) for i in range(b.start, b.stop)]
            starts = StartOrder(starts_file, b.start, grouping.B) if starts_file else None
            return make_batch(env, seeds, training, reset, decorrelation_steps, starts)

        self._build = build
        self._steppers = [GroupStepper(build(seed, g), self.buffers, grouping.group(g)) for g in range(grouping.groups)]

    def start(self, restore: bool = False) -> None:
        for stepper in self._steppers if not restore else ():
            stepper.start()

    def join(self) -> list[int]:
        """Like a pool of one worker, which joins once."""
        joined, self._joined = ([] if self._joined else [0]), True
        return joined

    def absent(self) -> list[slice]:
        return []

    def check(self) -> None:
        pass

    def release(self, group: int, step_index: int, n: int = 1, workers: list[int] | None = None) -> None:
        for k in range(n):
            self._steppers[group].do(step_index + k)

    def wait(self, groups: Sequence[int], ahead: int = 0) -> int:
        return groups[0]

    def is_ready(self, group: int) -> bool:
        return True

    def late_resets(self) -> int:
        return sum(stepper.env.late_resets for stepper in self._steppers)

    def get_state(self) -> list[bytes]:
        """One per environment, in the order of b."""
        return [state for stepper in self._steppers for state in stepper.env.get_state()]

    def set_state(self, states: list[bytes]) -> None:
        for g, stepper in enumerate(self._steppers):
            stepper.set_state(states[self.grouping.group(g)])

    def reseed(self, seed: int) -> None:
        for g, stepper in enumerate(self._steppers):
            stepper.replace(lambda g=g: self._build(seed, g))  # type: ignore[misc]
        self._joined = False

    def close(self) -> None:
        for stepper in self._steppers:
            stepper.env.close()
