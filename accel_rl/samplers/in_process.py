"""The engine that steps the environments in the main process, one group after another. All other engines must produce
the same rollouts as this engine."""

from functools import partial

from accel_rl.data.rollout_arrays import RolloutArrays
from accel_rl.envs.environment import BatchEnv
from accel_rl.envs.make import make_batch
from accel_rl.envs.starts import StartOrder
from accel_rl.samplers.engine import EngineSetup, WithoutWorkers
from accel_rl.samplers.grouping import env_seed
from accel_rl.samplers.workers.stepper import GroupStepper


class InProcessEngine(WithoutWorkers):
    """Steps environments without worker processes, for tests and debugging."""

    def __init__(self, setup: EngineSetup):
        grouping = setup.grouping
        self.setup, self.grouping = setup, grouping
        self.buffers = [RolloutArrays.zeros(setup.spec, setup.T, grouping.B) for _ in range(setup.buffers)]

        def build(seed: int, g: int) -> BatchEnv:
            b = grouping.group(g)
            seeds = [env_seed(seed, setup.first_index + i) for i in range(b.start, b.stop)]
            starts = StartOrder(setup.starts_file, b.start, grouping.B) if setup.starts_file else None
            first = setup.first_index + b.start
            return make_batch(setup.env, seeds, setup.training, setup.reset, setup.decorrelation_steps, starts, first)

        self._build = build
        self._steppers = [
            GroupStepper(build(setup.seed, g), self.buffers, grouping.group(g)) for g in range(grouping.groups)
        ]

    def start(self, restore: bool = False) -> None:
        for stepper in self._steppers if not restore else ():
            stepper.start()

    def release(self, group: int, step_index: int, n: int = 1, workers: list[int] | None = None) -> None:
        for k in range(n):
            self._steppers[group].do(step_index + k)

    def late_resets(self) -> int:
        return sum(stepper.env.late_resets for stepper in self._steppers)

    def get_state(self) -> list[bytes]:
        return [state for stepper in self._steppers for state in stepper.get_state()]

    def set_state(self, states: list[bytes]) -> None:
        for g, stepper in enumerate(self._steppers):
            stepper.set_state(states[self.grouping.group(g)])

    def reseed(self, seed: int) -> None:
        for g, stepper in enumerate(self._steppers):
            stepper.replace(partial(self._build, seed, g))
        self._has_joined = False

    def close(self) -> None:
        for stepper in self._steppers:
            stepper.env.close()
