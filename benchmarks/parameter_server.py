"""Calls a second to the shards of a parameter server, by transport, for one learner.

    push     the gradient of one slice to each shard, and their answers; a push is one AdaGrad step of the shard
    pull     the parameters of all shards
    update   what a learner does for an update, without its gradient: push and pull of all shards, with up to 0, 1 or 2
             updates unanswered

One push, pull or update moves all parameters, whatever the number of shards. Transports: in-process (the shards are
objects of this process) and sockets (each shard is an actor on this machine; needs the extra `cluster`). Medians of
interleaved measurements.

    together updates of several learners, each an actor of its own, that wait for each answer; all learners together

    python -m benchmarks.parameter_server --json OUT [--shards 1 2 4] [--transports in-process sockets]
        [--learners 1 2 4] [--parameters 1700000]
"""

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from accel_rl.system.errors import ConfigError
from accel_rl.system.process import before_torch

before_torch()

import torch  # noqa: E402

from accel_rl.config.gorila_settings import MAX_IN_FLIGHT, ParameterServerConfig  # noqa: E402
from accel_rl.gorila.ray_session import load_ray, local_ray  # noqa: E402
from accel_rl.gorila.shard import Push  # noqa: E402
from accel_rl.gorila.shard_actors import RayShards, transport_to  # noqa: E402
from accel_rl.gorila.sharded_sync import ShardedSync  # noqa: E402
from accel_rl.gorila.transport import InProcess, Transport  # noqa: E402
from accel_rl.optim.flat import FlatParameters  # noqa: E402
from accel_rl.optim.optimizers import AdaGrad  # noqa: E402
from accel_rl.system.counts import Count  # noqa: E402
from accel_rl.system.process import tune_torch  # noqa: E402
from benchmarks.interleave import Bar, interleave, medians  # noqa: E402
from benchmarks.program import program  # noqa: E402

WAIT_S = 60.0
RATE = 1e-9
ANY_DELAY = 1 << 40  # no push is stale: several learners take turns


@dataclass(frozen=True)
class Options:
    parameters: Count = 1_700_000
    """Number of parameters, of 4 bytes each (the network of Mnih et al. 2015 for 6 actions: 1.7 M)."""
    shards: tuple[Count, ...] = (1, 2, 4)
    """Numbers of shards."""
    transports: tuple[Literal["in-process", "sockets"], ...] = ("in-process", "sockets")
    """Transports."""
    learners: tuple[Count, ...] = ()
    """Numbers of learners that update together, each in a process of its own. Default: not measured."""
    seconds: float = 1.0
    """Seconds of one measurement."""
    repeats: Count = 5
    """Number of measurements of each variant, in turns; medians are reported."""
    threads: Count = 1
    """Number of torch threads of the learner and of each actor."""
    json: str = ""
    """Also write everything to this file."""

    def check(self) -> None:
        for name, least in (("parameters", 64), ("repeats", 1), ("threads", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"--{name} {getattr(self, name)}: must be at least {least}")
        if not self.shards or min(self.shards) < 1 or max(self.shards) > self.parameters // 64:
            allowed = f"1 to {self.parameters // 64}"
            raise ConfigError(f"--shards {' '.join(map(str, self.shards))}: must be {allowed}")
        if self.learners and min(self.learners) < 1:
            raise ConfigError(f"--learners {' '.join(map(str, self.learners))}: must be at least 1")
        if not self.seconds > 0:
            raise ConfigError(f"--seconds {self.seconds}: must be above 0")


def per_second(act: Callable[[], Any], seconds: float) -> float:
    """Measure calls per second."""
    began, calls = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < seconds:
        act()
        calls += 1
    return calls / passed


class Server:
    """A learner, and the shards that it reaches through a transport."""

    def __init__(self, o: Options, shards: int, transport: str, ray: Any = None):
        self._shards, self._seconds, self._sequence = shards, o.seconds, 0
        self._flat = FlatParameters(torch.nn.Linear(o.parameters, 1, bias=False))
        self._flat.grad.normal_(generator=torch.Generator().manual_seed(0))
        self._syncs = [self._sync(in_flight) for in_flight in range(MAX_IN_FLIGHT + 1)]
        built = self._syncs[0].build_shards()
        self._actors = None
        self._transport: Transport = InProcess(built)
        if transport != "in-process":
            self._actors = RayShards(ray, built, f"{transport}-{o.parameters}-{shards}", o.threads)
            self._transport = self._actors.transport()
        for sync in self._syncs:
            sync.connect(self._transport, publish=False)
        self._versions = [self._transport.call(i, "pull", None).result(WAIT_S).version for i in range(shards)]

    def _sync(self, in_flight: int) -> ShardedSync:
        config = ParameterServerConfig(self._shards, ANY_DELAY, in_flight, outlier_deviations=0.0)
        return ShardedSync(self._flat, AdaGrad, None, config, f"learner-{in_flight}")

    def push(self) -> None:
        self._sequence += 1
        calls = []
        for i, (part, version) in enumerate(zip(self._syncs[0].parts, self._versions, strict=True)):
            push = Push("pusher", self._sequence, version, RATE, self._flat.grad[part])
            calls.append(self._transport.call(i, "push", push))
        answers = {call.result(WAIT_S) for call in calls}
        assert answers == {"accepted"}, answers

    def pull(self) -> None:
        calls = [self._transport.call(i, "pull", None) for i in range(self._shards)]
        for part, call in zip(self._syncs[0].parts, calls, strict=True):
            self._flat.data[part].copy_(call.result(WAIT_S).parameters)

    def update(self, in_flight: int) -> None:
        self._syncs[in_flight].step(RATE, torch.zeros(()))

    def parts(self, prefix: str) -> dict[str, Callable[[], float]]:
        """Return the measurements, by name."""
        calls: dict[str, Callable[[], None]] = {"push": self.push, "pull": self.pull}
        calls |= {f"update, {n} in flight": partial(self.update, n) for n in range(MAX_IN_FLIGHT + 1)}
        return {f"{prefix}, {name}": partial(per_second, call, self._seconds) for name, call in calls.items()}

    def close(self) -> None:
        if self._actors is not None:
            self._actors.close()


class LearnerActor:
    """A learner in an actor's process."""

    def __init__(self, o: Options, shards: int, names: list[str], learner: str):
        ray = load_ray()
        before_torch()
        tune_torch(o.threads)
        self._flat = FlatParameters(torch.nn.Linear(o.parameters, 1, bias=False))
        self._flat.grad.normal_(generator=torch.Generator().manual_seed(0))
        config = ParameterServerConfig(shards, ANY_DELAY, 0, outlier_deviations=0.0)
        self._sync = ShardedSync(self._flat, AdaGrad, None, config, learner)
        self._sync.connect(transport_to(ray, names), publish=False)

    def updates_per_s(self, seconds: float) -> float:
        return per_second(lambda: self._sync.step(RATE, torch.zeros(())), seconds)


class Learners:
    """Several learners, and the shards that they reach through a transport."""

    def __init__(self, o: Options, shards: int, transport: str, learners: int, ray: Any):
        self._ray, self._seconds = ray, o.seconds
        flat = FlatParameters(torch.nn.Linear(o.parameters, 1, bias=False))
        config = ParameterServerConfig(shards, ANY_DELAY, 0, outlier_deviations=0.0)
        built = ShardedSync(flat, AdaGrad, None, config).build_shards()
        self._shards = RayShards(ray, built, f"{transport}-{shards}-{learners}", o.threads)
        actor = ray.remote(num_cpus=0)(LearnerActor)
        names = self._shards.names
        self._learners = [actor.remote(o, shards, names, f"learner-{i}") for i in range(learners)]

    def updates_per_s(self) -> float:
        return sum(self._ray.get([actor.updates_per_s.remote(self._seconds) for actor in self._learners]))

    def close(self) -> None:
        for actor in self._learners:
            self._ray.kill(actor)
        self._shards.close()


def together(
    o: Options, shards: int, transports: list[str], learners: int, ray: Any, bar: Bar
) -> dict[str, list[float]]:
    """Measure the updates of several learners, by transport in turns."""
    with ExitStack() as stack:
        parts: dict[str, Callable[[], float]] = {}
        for transport in transports:
            of_transport = Learners(o, shards, transport, learners, ray)
            stack.callback(of_transport.close)
            parts[f"{transport}, {shards}, together {learners}"] = of_transport.updates_per_s
        for act in parts.values():  # once to warm up
            act()
        return interleave(parts, o.repeats, bar)


def measure(o: Options) -> dict[str, Any]:
    tune_torch(o.threads)
    with ExitStack() as stack:
        ray = stack.enter_context(local_ray()) if set(o.transports) - {"in-process"} else None
        parts: dict[str, Callable[[], float]] = {}
        for transport in o.transports:
            for shards in o.shards:
                server = Server(o, shards, transport, ray)
                stack.callback(server.close)
                parts |= server.parts(f"{transport}, {shards}")
        for act in parts.values():  # once to warm up
            act()
        engines = [t for t in o.transports if t != "in-process"]
        bar = Bar((len(parts) + len(engines) * len(o.shards) * len(o.learners)) * o.repeats, "calls/s")
        stack.callback(bar.close)
        found = interleave(parts, o.repeats, bar)
        for shards in o.shards:
            for learners in o.learners if engines else ():
                found |= together(o, shards, engines, learners, ray, bar)
    return {"megabytes": 4e-6 * o.parameters, "calls_per_s": found, "median": medians(found)}


def report(o: Options, result: dict[str, Any]) -> list[str]:
    names = ["push", "pull", *(f"update, {n} in flight" for n in range(MAX_IN_FLIGHT + 1))]
    lines = [
        f"calls/s of one learner with {result['megabytes']:.1f} MB of parameters, medians of {o.repeats} turns",
        "",
        "| transport | shards | " + " | ".join(names) + " |",
        "|---|---|" + "---|" * len(names),
    ]
    for transport in o.transports:
        for shards in o.shards:
            row = [result["median"][f"{transport}, {shards}, {name}"] for name in names]
            lines.append(f"| {transport} | {shards} | " + " | ".join(f"{x:,.0f}" for x in row) + " |")
    return lines + (together_table(o, result) if o.learners else [])


def together_table(o: Options, result: dict[str, Any]) -> list[str]:
    """Return the table of learners that update together. An update sends all parameters twice."""
    lines = [
        "",
        "updates/s of several learners together, each update answered, and MB/s that they send and receive",
        "",
        "| transport | shards | " + " | ".join(f"learners {n}" for n in o.learners) + " |",
        "|---|---|" + "---|" * len(o.learners),
    ]
    for transport in o.transports:
        for shards in o.shards if transport != "in-process" else ():
            rates = [result["median"][f"{transport}, {shards}, together {n}"] for n in o.learners]
            cells = " | ".join(f"{x:,.0f} ({2 * x * result['megabytes']:,.0f} MB/s)" for x in rates)
            lines.append(f"| {transport} | {shards} | {cells} |")
    return lines


def main(argv: list[str]) -> int:
    return program("parameter_server", __doc__, Options, argv, Options.check, measure, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
