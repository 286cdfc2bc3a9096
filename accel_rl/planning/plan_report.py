"""Describes a run's groups of environments, and its memory on the host and on each device."""

import math
from dataclasses import dataclass, replace

import numpy as np

from accel_rl.algos.replay_algorithm import ReplayAlgorithmConfig
from accel_rl.data.rollout_arrays import rollout_layout
from accel_rl.machine import hardware
from accel_rl.planning.plan import RankPlan, RunPlan
from accel_rl.samplers.memory_budget import DEVICE_EMULATOR_BYTES, bound
from accel_rl.settings.resolved import Resolved
from accel_rl.text.counts import counted
from accel_rl.text.errors import ConfigError

FASTER = (
    "precision: float32; DQN and Rainbow were 1.6 to 1.8 times as fast on an H200 with --precision tfloat32, and 1.2 "
    "to 1.5 times with --schedule concurrent"
)
"""The speeds were measured with batches of 512 transitions (benchmarks/results/gpu_h200.md). The default precision is
float32, as in the papers."""

LEAST_WORKER_BYTES, LEAST_RANK_BYTES = 20 * 2**20, 100 * 2**20
"""Lower bounds for the private memory of a worker process and of a rank's process, without environments and
networks."""


@dataclass(frozen=True, slots=True)
class RankMemory:
    """The memory of one rank, in bytes. Rollouts are in host memory, and copied to the GPU if the rank has a GPU. With
    the device engine, rollouts are only on the device."""

    rollouts: int
    simulators: int  # The device engine or the worker processes need at most `simulators` bytes.
    processes: int  # The worker processes and the rank's own process, if not this one, need at least `processes` bytes.
    replay: int  # The replay buffer needs `replay` bytes.
    replay_device: str
    on_device: bool = False  # Whether environments and rollouts are only on the rank's device.

    @classmethod
    def of(cls, config: Resolved, plan: RankPlan) -> "RankMemory":
        s, spec = plan.sampler, config.spec
        B, workers = s.grouping.B, 0 if s.in_process else s.grouping.workers
        layout = rollout_layout(spec, s.T, B)
        rollout = sum(np.dtype(dtype).itemsize * math.prod(shape) for dtype, shape in layout.values())
        limit = bound(spec, s.T, config.sampler.reset)
        emulators = B * (limit.emulator if not s.on_device else DEVICE_EMULATOR_BYTES)
        replay, where = 0, ""
        if isinstance(config.algo, ReplayAlgorithmConfig):
            where = config.algo.replay.where(plan.device)
            replay = int(config.algo.replay.size * config.algo.replay.bytes_each(spec))
        simulators = emulators + workers * limit.worker
        processes = workers * LEAST_WORKER_BYTES + config.distributed.several * LEAST_RANK_BYTES
        return cls(s.buffers * rollout, simulators, processes, replay, where, s.on_device)

    def at_least(self) -> "RankMemory":
        """Return a lower bound of the rank's memory, in which the upper bound `simulators` is replaced by
        `processes`."""
        return self if self.on_device else replace(self, simulators=self.processes)

    def on(self, device: str, rank_device: str) -> int:
        """The rank's memory, in bytes, on a device: "cpu" or the rank's device."""
        replay = self.replay if self.replay_device == device else 0
        if self.on_device:
            return replay + (self.simulators + self.rollouts if device == rank_device else 0)
        host = self.simulators if device == "cpu" else 0
        return replay + host + (self.rollouts if device in ("cpu", rank_device) else 0)


def report(plan: RunPlan) -> tuple[list[str], list[str], list[str]]:
    """(facts, warnings, problems), as lines of text. Insufficient memory is reported as a problem."""
    config, memories = plan.config, _memories(plan)
    pairs = list(zip(plan.ranks, memories, strict=True))
    facts = [line for rank, memory in pairs for line in (*rank.lines(), *_details(rank, memory))]
    is_q_learning = isinstance(config.algo, ReplayAlgorithmConfig)
    if is_q_learning and plan.ranks[0].device.queues_work and config.precision == "float32":
        facts.append(FASTER)
    return facts, _warnings(plan), _problems(plan, memories)


def check_memory(plan: RunPlan) -> None:
    """Raise ConfigError if a run does not fit in this machine's memory: the rollouts, the replay, and the least memory
    that its processes can need."""
    for line in _problems(plan, [memory.at_least() for memory in _memories(plan)]):
        raise ConfigError(line)


def _memories(plan: RunPlan) -> list[RankMemory]:
    return [RankMemory.of(config, rank) for config, rank in zip(plan.rank_configs, plan.ranks, strict=True)]


def _problems(plan: RunPlan, memories: list[RankMemory]) -> list[str]:
    """A line for each device whose free memory is too small. `memories` contains the memory of each rank."""
    needed: dict[str, int] = {}
    for rank, memory in zip(plan.ranks, memories, strict=True):
        for device in dict.fromkeys(("cpu", rank.device, memory.replay_device or "cpu")):
            needed[device] = needed.get(device, 0) + memory.on(device, rank.device)
    problems = []
    for device, need in needed.items():
        free, where = hardware.free_memory(device), "host" if device == "cpu" else device
        if need > free:
            problems.append(
                f"{_size(need)} are needed on the {where} besides the network and its activations, {_size(free)} are "
                "there: use fewer environments (--sampler.envs), a shorter horizon (--sampler.horizon), fewer workers "
                "or ranks, or a smaller replay (--replay.size)"
            )
    return problems


def _details(rank: RankPlan, memory: RankMemory) -> list[str]:
    s, g = rank.sampler, rank.sampler.grouping
    on_gpu = rank.device != "cpu"
    replay = [f"replay: {_size(memory.replay)} on {memory.replay_device}"] if memory.replay else []
    lines = [f"a group has {counted(g.B // g.groups, 'environment')}, {g.n} of them on each worker that steps it"]
    locked = f", page-locked, and as many on {rank.device}" if on_gpu else ""
    if memory.on_device:
        emulators, on = _size(memory.simulators), rank.device
        return [f"{s.buffers} rollout buffers: {_size(memory.rollouts)}, emulators: {emulators}, on {on}", *replay]
    lines.append(f"{s.buffers} rollout buffers: {_size(memory.rollouts)} on the host{locked}")
    lines += replay
    lines.append(f"simulators and workers: at most {_size(memory.simulators)} on the host")
    return lines


def _warnings(plan: RunPlan) -> list[str]:
    result = []
    cores = hardware.usable_cores()
    if len(plan.ranks) > len(cores):
        result.append(f"{len(plan.ranks)} ranks share {len(cores)} cores")
    gpus, used = hardware.gpu_count(), {r.device for r in plan.ranks if r.device != "cpu"}
    if gpus > len(used):
        names = ",".join(map(str, range(gpus)))
        result.append(f"{gpus - len(used)} of {gpus} GPUs are not used; --gpus {names} uses all, a rank each")
    return result


def _size(n: int) -> str:
    return f"{n / 2**30:.1f} GiB" if n >= 2**30 else f"{n / 2**20:.1f} MiB"
