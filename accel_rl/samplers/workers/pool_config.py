"""Settings of a pool of worker processes."""

from dataclasses import dataclass

from accel_rl.samplers.workers.stepper import BUFFERS


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
    spins: int = 0  # looks at shared memory before a process sleeps
    buffers: int = BUFFERS  # rollouts in shared memory
    first_index: int = 0  # of this rank's environments among all
    starts_file: str = ""  # of saved starts of episodes; "": episodes begin with a reset
