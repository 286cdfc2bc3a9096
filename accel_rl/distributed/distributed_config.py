"""Settings of distributed training."""

from dataclasses import dataclass

from accel_rl.machine import hardware
from accel_rl.machine.machine import numbers
from accel_rl.machine.placement import gpu_of_rank
from accel_rl.text.bounds import NonNegativeCount, PositiveCount
from accel_rl.text.errors import ConfigError


@dataclass(frozen=True)
class DistributedConfig:
    """Settings of distributed training. Each rank is a process with its own workers, environments and part of the
    replay (Stooke & Abbeel 2018, sections 4.2 and 4.3)."""

    ranks: PositiveCount | None = None
    """Number of ranks. The default number of ranks is one for each GPU of --gpus, and one without --gpus."""
    gpus: str = ""
    """GPUs that the ranks use, such as 0,1 or 0-7. If the run has more ranks than GPUs, ranks share the GPUs evenly. By
    default, all ranks use --device."""
    update: str = "all-reduce"
    """Exchange of gradients between ranks. With `all-reduce`, the ranks are one learner on several devices, and --envs,
    --batch-size and --minibatch are divided among them. With `async`, each rank is a separate learner with --envs
    environments and full batches, and applies each gradient to the central parameters immediately. The ranks divide
    --replay.size with `all-reduce` and with `async`. `module:Class` is a user's GradientSync, whose ranks divide the
    batches as with all-reduce."""
    chunks: PositiveCount = 3
    """Number of disjoint chunks of the central parameters, each with its own lock (async; section 4.3)."""
    local_updates: PositiveCount = 1
    """Number of local updates between two pushes, with async and Adam (section 5.3: 1 to 4; appendix A)."""
    warmup_updates: NonNegativeCount = 0
    """Number of initial updates that rank 0 makes alone (async). During the warmup, gradients of other ranks are
    dropped. The warmup is an addition of this project to Stooke & Abbeel (2018). The first steps of RMSProp are the
    longest. Without a warmup, gradients of other ranks, computed from old parameters, would repeat RMSProp's long first
    steps."""
    pull_steps: PositiveCount = 64
    """Agent steps between two pulls of the central parameters during sampling (async; section 5.3: 64)."""
    hash_interval: NonNegativeCount = 100
    """Number of updates between two bitwise comparisons of the ranks' parameters, with --update all-reduce. With 0, the
    parameters are not compared."""
    max_restarts: NonNegativeCount = 0
    """Maximum number of restarts from the checkpoint after a rank was killed (all-reduce). With async, a killed rank is
    always replaced, while the other ranks continue."""
    timeout_s: float = 240.0
    """Seconds after which a rank that does not answer is considered hung. The default is long enough for a rank to
    replace a worker process that has not started within --sampler.start-timeout-s."""

    @property
    def is_async(self) -> bool:
        """Whether each rank is a separate learner, which applies its gradients to central parameters."""
        return self.update == "async"

    @property
    def sync_class(self) -> str:
        """The name of the user's class that exchanges gradients, `module:Class`, or "" for the built-in
        exchanges."""
        return self.update if ":" in self.update else ""

    @property
    def named_gpus(self) -> list[int]:
        """The GPU indices of --gpus, without a check that the GPUs exist. Raises ConfigError for other text than
        a list such as 0-3,8."""
        try:
            return numbers(self.gpus.replace(" ", ",")) if self.gpus else []
        except ConfigError as e:
            raise ConfigError(f"--gpus {e}") from e

    @property
    def gpu_list(self) -> list[int]:
        """The GPU indices of --gpus. Raises ConfigError for a GPU that is not available."""
        for n in self.named_gpus:
            hardware.available_device(hardware.gpu_name(n), "--gpus")
        return self.named_gpus

    @property
    def size(self) -> int:
        return self.ranks or max(1, len(self.gpu_list))

    @property
    def several(self) -> bool:
        """Whether each rank runs in a separate process."""
        return self.size > 1 or self.is_async

    @property
    def shares_batches(self) -> bool:
        """Whether several ranks make each update together."""
        return self.size > 1 and not self.is_async

    def device(self, rank: int, ranks: int, other: str) -> str:
        """The device of one of the machine's `ranks` ranks, or `other` if --gpus is empty."""
        gpus = self.gpu_list
        return hardware.gpu_name(gpus[gpu_of_rank(rank, ranks, len(gpus))]) if gpus else other

    def check(self) -> None:
        if self.local_updates > 1 and not self.is_async:
            raise ConfigError(f"--distributed.local-updates {self.local_updates}: only with --update async")
        if self.gpus and self.ranks and self.ranks < len(self.gpu_list):
            raise ConfigError(f"--gpus {self.gpus}: {self.ranks} ranks cannot use {len(self.gpu_list)} GPUs")
