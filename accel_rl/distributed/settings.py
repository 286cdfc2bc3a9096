"""Settings of ranks that learn together."""

from dataclasses import dataclass
from typing import Literal

from accel_rl.system import hardware
from accel_rl.system.counts import Count, OptionalCount
from accel_rl.system.errors import ConfigError
from accel_rl.system.placement import gpu_of_rank


@dataclass(frozen=True)
class DistributedConfig:
    """Processes that sample and learn alike, each with its own workers, environments and part of the replay (Stooke &
    Abbeel 2018, sections 4.2 and 4.3)."""

    ranks: OptionalCount = None
    """How many. Default: one a GPU of --gpus, else one in all."""
    gpus: str = ""
    """GPUs to use, such as 0,1; more ranks than GPUs share them evenly, neighbours one. Default: --device for all."""
    update: Literal["all-reduce", "async"] = "all-reduce"
    """all-reduce: one learner on several devices; --envs, --batch-size and --minibatch are divided among the ranks.
    async: each rank is a learner of its own, with so many environments and such batches, that applies its gradients to
    central parameters whenever it has one. --replay.size is divided in both."""
    chunks: Count = 3
    """async: disjoint chunks of the central parameters, each with its lock (section 4.3)."""
    local_updates: Count = 1
    """async with Adam: updates of a rank between two pushes (section 5.3: 1 to 4; the rule of appendix A)."""
    warmup_updates: Count = 0
    """async: updates that rank 0 makes alone at a run's beginning; gradients of other ranks are dropped until then. Not
    in the paper. RMSProp's first steps are longer than its later ones, and late gradients repeat them; by default all
    ranks learn from the first update on."""
    pull_steps: Count = 64
    """async: steps of each environment after which central parameters are pulled while sampling (section 5.3: 64)."""
    hash_interval: Count = 100
    """all-reduce: updates between two comparisons of the ranks' parameters, bit by bit; 0: never."""
    max_restarts: Count = 0
    """all-reduce: so often a run whose rank was killed is brought back from its checkpoint. async: lost ranks are
    replaced in any case, and the others go on."""
    timeout_s: float = 120.0
    """A rank that owes the others an answer for longer counts as hung, seconds."""

    @property
    def gpu_list(self) -> list[int]:
        """ConfigError where --gpus is no list of GPUs that are there."""
        if not self.gpus:
            return []
        names = self.gpus.replace(" ", ",").split(",")
        if not all(n.isdigit() for n in names):
            raise ConfigError(f"--gpus {self.gpus}: must be numbers with commas between, such as 0,1")
        for n in names:
            hardware.available_device(f"cuda:{n}", "--gpus")
        return [int(n) for n in names]

    @property
    def size(self) -> int:
        return self.ranks or max(1, len(self.gpu_list))

    @property
    def several(self) -> bool:
        """Whether ranks are processes of their own."""
        return self.size > 1 or self.update == "async"

    def device(self, rank: int, ranks: int, other: str) -> str:
        """Of one of the machine's ranks; `other` where no GPUs are named."""
        gpus = self.gpu_list
        return f"cuda:{gpus[gpu_of_rank(rank, ranks, len(gpus))]}" if gpus else other

    def check(self) -> None:
        for name in ("ranks", "chunks", "local_updates", "pull_steps"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ConfigError(f"--distributed.{name.replace('_', '-')} {value}: must be at least 1")
        for name in ("warmup_updates", "hash_interval", "max_restarts"):
            if getattr(self, name) < 0:
                raise ConfigError(f"--distributed.{name.replace('_', '-')} {getattr(self, name)}: must be 0 or more")
        if not self.timeout_s > 0:
            raise ConfigError(f"--distributed.timeout-s {self.timeout_s}: must be above 0")
        if self.local_updates > 1 and self.update != "async":
            raise ConfigError(f"--distributed.local-updates {self.local_updates}: only with --update async")
        if self.gpus and self.ranks and self.ranks < len(self.gpu_list):
            raise ConfigError(f"--gpus {self.gpus}: {self.ranks} ranks cannot use {len(self.gpu_list)} GPUs")
