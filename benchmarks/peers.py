"""The sampler compared with other vector environments, in one run.

    python -m benchmarks.peers --games breakout pong --json OUT

accel_rl, ale-py's AtariVectorEnv (step; send/recv), EnvPool (sync; async), Gymnasium AsyncVectorEnv and SB3
SubprocVecEnv take turns at the same game: frame skip 4, 104x80, with random actions and with A3C-Net acting (the same
weights; eager torch for the peers). Prints medians and the ratios of accel_rl to each peer. Peers that are not
installed are named and left out.
"""

import contextlib
import importlib.util
import sys
from dataclasses import dataclass
from typing import Any

from accel_rl.system.errors import ConfigError, nearest
from accel_rl.system.process import before_torch

before_torch()

import numpy as np  # noqa: E402
import torch  # noqa: E402

from accel_rl.agents.agent import Agent  # noqa: E402
from accel_rl.system.counts import Count, OptionalCount  # noqa: E402
from benchmarks.agents import NAMES, check_net, make_agent  # noqa: E402
from benchmarks.interleave import Bar, interleave, medians, ratio  # noqa: E402
from benchmarks.machine import machine  # noqa: E402
from benchmarks.ours import Ours, Setting, cores_of  # noqa: E402
from benchmarks.peer_envs import PEERS, Act, Peer, Shape  # noqa: E402
from benchmarks.program import program  # noqa: E402

OURS = Ours.name
ALL = tuple(p.name for p in PEERS)


@dataclass(frozen=True)
class Options:
    games: tuple[str, ...] = ("breakout",)
    """Atari games."""
    peers: tuple[str, ...] = ALL
    """Peers to measure."""
    nets: tuple[str, ...] = ("none", "a3c")
    """Networks that act: none (random actions), a3c, dqn."""
    workers: OptionalCount = None
    """Worker processes of accel_rl, and threads of the peers. Default: one per usable core."""
    envs_per_worker: Count = 32
    """Environments of each worker. Vectorised peers have the same total."""
    process_envs: Count = 16
    """Environments of peers with a process for each environment (about 180 MB each)."""
    horizon: Count = 20
    """Steps per rollout of accel_rl."""
    reset: str = "immediate"
    """Reset of accel_rl: immediate, wait, swap or cached."""
    backend: str = "auto"
    """Emulator of accel_rl: auto, ale or emulator."""
    seconds: float = 4.0
    """Length of one measurement."""
    repeats: Count = 5
    """Number of measurements of each variant, in turns; medians are reported."""
    json: str = ""
    """Also write everything to this file."""


def check(o: Options) -> None:
    """Raise ConfigError, one line, for impossible options."""
    for name in ("workers", "envs_per_worker", "process_envs", "horizon", "repeats"):
        value = getattr(o, name)
        if value is not None and value < 1:
            raise ConfigError(f"--{name.replace('_', '-')} {value}: must be at least 1")
    if not o.seconds > 0:
        raise ConfigError(f"--seconds {o.seconds}: must be above 0")
    for peer in o.peers:
        if peer not in ALL:
            raise ConfigError(f"--peers {peer!r}: must be one of {', '.join(ALL)}{nearest(peer, ALL)}")
    for game in o.games:
        setting(o, game).check()
    for net in o.nets:
        check_net(net)
    if not (o.games and o.nets):
        raise ConfigError("--games and --nets: at least one of each")


def setting(o: Options, game: str) -> Setting:
    return Setting(game, o.envs_per_worker, o.workers, horizon=o.horizon, reset=o.reset, backend=o.backend)


def installed(o: Options) -> tuple[list[type[Peer]], dict[str, str]]:
    """Return (installed peers, {missing peer: how to install it}). Prints the missing peers once."""
    there, missing = [], {}
    for peer in PEERS:
        if peer.name not in o.peers:
            continue
        if importlib.util.find_spec(peer.package) is not None:
            there.append(peer)
        else:
            missing[peer.name] = f"pip install {peer.install}"
    for command in dict.fromkeys(missing.values()):
        names = [n for n, c in missing.items() if c == command]
        print(f"left out: {', '.join(names)}, not installed ({command})", file=sys.stderr)
    return there, missing


def acting(agent: Agent) -> Act:
    """Wrap an agent as a function from numpy stacks to actions."""

    def act(obs: np.ndarray) -> np.ndarray:
        batch = torch.from_numpy(np.require(obs, requirements=["C", "W"]))
        return agent.act(batch, torch.rand(len(obs)))[0].numpy()

    return act


def measure(o: Options, game: str, peers: list[type[Peer]], bar: Bar) -> dict[str, Any]:
    """Measure accel_rl and the peers in turns on one game; returns measurements, medians, ratios and sizes."""
    ours = Ours(setting(o, game))
    started: list[Peer] = []
    failed: dict[str, str] = {}
    found: dict[str, Any] = {}
    try:
        agents = {net: make_agent(net, ours.spec) for net in o.nets}
        ours.warm_up(agents[o.nets[0]])
        shape = Shape(game, ours.grouping.B, o.process_envs, len(cores_of(ours.placement)), *ours.spec.frame_shape)
        for make in peers:
            try:
                started.append(make(shape))
            except Exception as e:
                failed[make.name] = f"{type(e).__name__}: {' '.join(str(e).split())[:200]}"
                print(f"left out: {make.name} on {game}: {failed[make.name]}", file=sys.stderr)
        for net, agent in agents.items():
            act = None if net == "none" else acting(agent)
            parts = {OURS: lambda a=agent: ours.measure(o.seconds, a)}
            parts |= {p.name: lambda p=p, act=act: p.measure(o.seconds, act) for p in started}
            found[net] = interleave(parts, o.repeats, bar, f"{game}, {NAMES[net]}: ")
        sizes = {p.name: {"environments": p.n, "picture": list(p.stacks().shape[-2:])} for p in started}
        return {
            "measurements": found,
            "medians": {net: medians(by_name) for net, by_name in found.items()},
            "ours_over": {
                net: {name: ratio(by_name[OURS], values) for name, values in by_name.items() if name != OURS}
                for net, by_name in found.items()
            },
            "sizes": {OURS: {"environments": ours.grouping.B, "picture": list(ours.spec.frame_shape)}, **sizes},
            "failed": failed,
        }
    finally:
        for peer in started:
            peer.close()
        ours.close()


def table(game: str, r: dict[str, Any]) -> list[str]:
    """Format a line for each peer: env steps/s and the ratio of accel_rl to it, for each network."""
    nets = list(r["measurements"])
    lines = [f"{game:<26} {'envs':>5} {'picture':>8}" + "".join(f" {NAMES[n]:>16} {'ours':>6}" for n in nets)]
    for name, size in r["sizes"].items():
        picture = "x".join(map(str, size["picture"]))
        line = f"{name:<26} {size['environments']:>5} {picture:>8}"
        for net in nets:
            over = r["ours_over"][net].get(name)
            line += f" {r['medians'][net][name]:>16,.0f} " + (f"x{over['of_medians']:>5.2f}" if over else " " * 6)
        lines.append(line)
    return lines


def run(o: Options) -> dict[str, Any]:
    peers, missing = installed(o)
    with contextlib.closing(Bar(len(o.games) * len(o.nets) * (1 + len(peers)) * o.repeats)) as bar:
        return {"missing": missing, "games": {game: measure(o, game, peers, bar) for game in o.games}}


def report(o: Options, result: dict[str, Any]) -> list[str]:
    m = machine()
    head = f"{m['cpu']}, {len(m['cores'])} cores; env steps/s, medians of {o.repeats} turns of {o.seconds:g} s"
    return [head, *(line for game, r in result["games"].items() for line in ("", *table(game, r)))]


def main(argv: list[str]) -> int:
    return program("peers", __doc__, Options, argv, check, run, report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
