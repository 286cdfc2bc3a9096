"""Updates a second and staleness of a Gorila cluster by number of bundles and shards: measured parts, and a simulation.

Measured here: a cycle of one learner (a step of its environment and an update, as in experiments.gorila, no server),
and for each number of shards the calls of a push and of a pull of one slice through Ray, and the AdaGrad
step of a slice. A call's time beyond that step counts half for the learner and half for the shard.

Simulated (benchmarks/gorila_model.py): each learner and shard has a machine like this one, with a network of the given
speed. Columns: updates/s of the parameters; mean and 95th percentile of staleness, in updates of the shard; share of
gradients discarded at --max-delay; the part with the lowest bound (learner, shard or network), and that bound.

    python -m benchmarks.gorila_scaling --json OUT [--gigabits 1] [--parts EARLIER.json]
"""

import json
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from accel_rl.system.errors import ConfigError
from accel_rl.system.process import before_torch

before_torch()

from accel_rl.config.gorila_settings import MAX_IN_FLIGHT  # noqa: E402
from accel_rl.config.on_gorila import on_gorila  # noqa: E402
from accel_rl.config.resolved import resolve  # noqa: E402
from accel_rl.config.train import default_config  # noqa: E402
from accel_rl.gorila.ray_session import local_ray  # noqa: E402
from accel_rl.runners.plan import RankPlan  # noqa: E402
from accel_rl.runners.run_folder import RunFolder  # noqa: E402
from accel_rl.runners.trainer import Trainer  # noqa: E402
from accel_rl.system.counts import Count  # noqa: E402
from accel_rl.system.process import tune_torch  # noqa: E402
from benchmarks import parameter_server  # noqa: E402
from benchmarks.gorila_model import Costs, Simulation, bounds  # noqa: E402
from benchmarks.interleave import Bar, interleave, medians  # noqa: E402
from benchmarks.parameter_server import Server, per_second  # noqa: E402
from benchmarks.program import program  # noqa: E402


@dataclass(frozen=True)
class Options:
    bundles: tuple[Count, ...] = (2, 5, 10, 31, 50, 100)
    """Numbers of bundles."""
    shards: tuple[Count, ...] = (1, 4, 31)
    """Numbers of shards."""
    in_flight: Count = 1
    """Number of updates of a learner that may be unanswered, 0 to 2."""
    max_delay: Count = 100
    """Maximum age of a gradient, in updates of the shard."""
    gigabits: float = 10.0
    """Speed of each machine's network, in gigabits a second each way."""
    latency_us: float = 50.0
    """Microseconds of a message beyond its transfer."""
    updates: Count = 3_000
    """Number of simulated updates."""
    seconds: float = 1.0
    """Seconds of one measurement."""
    repeats: Count = 5
    """Turns; medians are used."""
    game: str = "pong"
    """Game of the measured learner."""
    parts: str = ""
    """JSON of an earlier call: use its measured parts, and measure nothing."""
    json: str = ""
    """Also write everything to this file."""

    def check(self) -> None:
        for name, least in (("updates", 100), ("repeats", 1), ("max_delay", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"--{name.replace('_', '-')} {getattr(self, name)}: must be at least {least}")
        for name in ("bundles", "shards"):
            if not getattr(self, name) or min(getattr(self, name)) < 1:
                raise ConfigError(f"--{name} {' '.join(map(str, getattr(self, name)))}: must be at least 1")
        if not 0 <= self.in_flight <= MAX_IN_FLIGHT:
            raise ConfigError(f"--in-flight {self.in_flight}: must be 0 to {MAX_IN_FLIGHT}")
        for name in ("gigabits", "seconds"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"--{name} {getattr(self, name):g}: must be above 0")
        if self.latency_us < 0:
            raise ConfigError(f"--latency-us {self.latency_us:g}: must be 0 or more")


class Alone:
    """A bundle of experiments.gorila without a server: one environment, an update of 32 transitions at each step."""

    def __init__(self, game: str, folder: Path):
        base = on_gorila(default_config("dqn"))
        algo: Any = base.algo
        config = replace(
            base,
            cluster="none",
            env=replace(base.env, game=game, protocol="mnih2015"),
            algo=replace(algo, intensity=32.0, replay=replace(algo.replay, size=20_000, start=500)),
            sampler=replace(base.sampler, envs=1, horizon=1, groups=1, engine="in-process", decorrelation_steps=0),
            device="cpu",
            evaluation=replace(base.evaluation, interval=0),
            torch_threads=1,
        )
        config = resolve(config)
        self.trainer = Trainer(config, RankPlan.resolve(config), RunFolder.create(folder / "run", config))
        self.trainer.sampler.start()
        while not self.trainer.learner.updates:
            self.trainer.schedule.cycle()

    @property
    def parameters(self) -> int:
        return len(self.trainer.learner.flat.data)

    def act(self) -> None:
        self.trainer.sampler.collect(self.trainer.learner.algo.agent)


def measure_parts(o: Options) -> dict[str, Any]:
    """Measure milliseconds of the parts; {"parameters": n, "ms": {name: median}}."""
    tune_torch(1)
    with tempfile.TemporaryDirectory() as folder, local_ray() as ray:
        alone = Alone(o.game, Path(folder))
        n, calls = alone.parameters, {}
        calls["cycle"], calls["act"] = alone.trainer.schedule.cycle, alone.act
        servers = []
        for size in dict.fromkeys([n, *(-(-n // shards) for shards in o.shards)]):
            options = parameter_server.Options(parameters=size)
            local, remote = Server(options, 1), Server(options, 1, ray)
            servers += [local, remote]
            calls |= {f"step {size}": local.push, f"push {size}": remote.push, f"pull {size}": remote.pull}
        parts = {name: lambda call=call: per_second(call, o.seconds) for name, call in calls.items()}
        for call in calls.values():  # once to warm up
            call()
        bar = Bar(len(parts) * o.repeats, "calls/s")
        try:
            rates = interleave(parts, o.repeats, bar)
        finally:
            bar.close()
            for server in servers:
                server.close()
            alone.trainer.sampler.close()
    return {"parameters": n, "ms": {name: 1e3 / rate for name, rate in medians(rates).items()}}


def costs(o: Options, parts: dict[str, Any], shards: int) -> Costs:
    """Build the costs of a simulation from measured parts."""
    n, ms = parts["parameters"], parts["ms"]
    size = -(-n // shards)
    missing = [name for name in (f"{what} {size}" for what in ("step", "push", "pull")) if name not in ms]
    if missing:
        raise ConfigError(f"--shards {shards}: --parts {o.parts} has no {missing[0]!r}")
    step, pull = ms[f"step {size}"], ms[f"pull {size}"]
    call = max(0.0, ms[f"push {size}"] - step)
    return Costs(
        cycle_s=1e-3 * max(0.0, ms["cycle"] - ms[f"step {n}"]),  # the server makes the step
        push_s=1e-3 * (step + call / 2),
        pull_s=1e-3 * pull / 2,
        send_s=1e-3 * call / 2,
        receive_s=1e-3 * pull / 2,
        bytes=4.0 * size,
        network=o.gigabits * 1e9 / 8,
        latency_s=1e-6 * o.latency_us,
    )


def measure(o: Options) -> dict[str, Any]:
    if o.parts:
        try:
            parts = json.loads(Path(o.parts).read_text())["parts"]
        except (OSError, ValueError, KeyError) as e:
            raise ConfigError(f"--parts {o.parts}: no result of this program ({type(e).__name__}: {e})") from e
    else:
        parts = measure_parts(o)
    rows = []
    for shards in o.shards:
        c = costs(o, parts, shards)
        for bundles in o.bundles:
            found = Simulation(c, bundles, shards, o.in_flight, o.max_delay).run(o.updates)
            limits = bounds(c, bundles, shards)
            bound = min(limits, key=lambda name: limits[name])
            rows.append(
                {"shards": shards, "bundles": bundles, **asdict(found), "bound": bound, "bound_per_s": limits[bound]}
            )
    return {"parts": parts, "rows": rows}


def report(o: Options, result: dict[str, Any]) -> list[str]:
    parts = result["parts"]
    lines = [f"milliseconds of the parts, {parts['parameters']:,} parameters:", "", "| part | ms |", "|---|---|"]
    lines += [f"| {name} | {ms:.2f} |" for name, ms in parts["ms"].items()]
    lines += [
        "",
        f"simulated, {o.gigabits:g} Gbit/s, {o.in_flight} in flight, at most {o.max_delay} updates old:",
        "",
        "| shards | bundles | updates/s | staleness | 95 % | discarded | bound | bound, updates/s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in result["rows"]:
        lines.append(
            f"| {r['shards']} | {r['bundles']} | {r['updates_per_s']:.1f} | {r['staleness_mean']:.1f} | "
            f"{r['staleness_95']:.0f} | {100 * r['discarded']:.1f} % | {r['bound']} | {r['bound_per_s']:.1f} |"
        )
    return lines


def main(argv: list[str]) -> int:
    return program("gorila_scaling", __doc__, Options, argv, Options.check, measure, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
