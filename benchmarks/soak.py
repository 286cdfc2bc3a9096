"""Sampling while workers are killed at random: checks for hangs, leaks and lasting loss of speed.

    python -m benchmarks.soak --minutes 10 --kill-every 20

Every --kill-every seconds a worker is killed (SIGKILL; every fourth time stopped, SIGSTOP, so that it seems to hang).
Checked: no rollout takes longer than --hang + --back seconds; each environment's part of a rollout is whole, or marked
(valid False everywhere, and no ends); within --back seconds all environments take part again, at --recovered of the
rate of the ten seconds before the kill; the numbers of processes and descriptors at the end are those after the first
kill, and memory is within 2 %.

Prints a verdict. Exit code 1 if a check failed, 2 for bad arguments.
"""

import random
import signal
import statistics
import sys
import time
from collections import deque
from dataclasses import asdict, dataclass, field
from typing import Any

from accel_rl.system.errors import ConfigError
from accel_rl.system.process import before_torch

before_torch()

import psutil  # noqa: E402
import torch  # noqa: E402

from accel_rl.data.rollout import Rollout  # noqa: E402
from accel_rl.metrics.progress import ProgressDisplay  # noqa: E402
from accel_rl.samplers.workers.pool import WorkerPool  # noqa: E402
from accel_rl.system.counts import Count, OptionalCount  # noqa: E402
from benchmarks.agents import check_net, make_agent  # noqa: E402
from benchmarks.ours import Ours, Setting  # noqa: E402
from benchmarks.program import program  # noqa: E402

MEMORY_GROWTH = 0.02


@dataclass(frozen=True)
class Options:
    game: str = "pong"
    """Atari game."""
    workers: OptionalCount = None
    """Number of worker processes. Default: one per usable core."""
    envs_per_worker: Count = 16
    """Number of environments of each worker."""
    horizon: Count = 20
    """Steps per rollout."""
    reset: str = "immediate"
    """Mode of reset: immediate, wait, swap or cached."""
    net: str = "none"
    """Network that acts: none (random actions), a3c or dqn."""
    decorrelation_steps: Count = 0
    """Maximum number of random actions at the start of each environment; a new worker plays them before it joins."""
    minutes: float = 10.0
    """Length of the run."""
    kill_every: float = 20.0
    """Seconds between two kills."""
    hang: float = 10.0
    """Seconds after which a worker that does not answer counts as hung."""
    back: float = 5.0
    """Seconds within which the rate must recover."""
    recovered: float = 0.9
    """Share of the rate before the kill that counts as recovered."""
    seed: Count = 0
    """Seed of the choice of workers."""
    json: str = ""
    """Also write everything to this file."""

    def check(self) -> None:
        """Raise ConfigError, one line, for impossible options."""
        for name in ("minutes", "kill_every", "hang", "back", "recovered"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"--{name.replace('_', '-')} {getattr(self, name)}: must be above 0")
        check_net(self.net)
        self.setting().check()

    def setting(self) -> Setting:
        return Setting(
            self.game, self.envs_per_worker, self.workers, horizon=self.horizon, reset=self.reset,
            decorrelation_steps=self.decorrelation_steps, timeout_s=self.hang,
        )  # fmt: skip


@dataclass(frozen=True)
class Resources:
    """Resources of this process and its workers."""

    processes: int
    descriptors: int  # of this process
    memory: int  # bytes: private memory of all of them, and the shared memory once

    @classmethod
    def now(cls) -> "Resources":
        me = psutil.Process()
        children = me.children(recursive=True)
        info = me.memory_full_info()
        return cls(len(children), me.num_fds(), info.uss + info.shared + sum(private(c) for c in children))


def private(process: psutil.Process) -> int:
    try:
        return process.memory_full_info().uss
    except psutil.NoSuchProcess:
        return 0


@dataclass
class Findings:
    """Failed checks and counts."""

    wrong: list[str] = field(default_factory=list)
    kills: int = 0
    rollouts: int = 0
    marked_rollouts: int = 0  # rollouts with a part that is marked as lost
    recovery_s: list[float] = field(default_factory=list)
    longest_s: float = 0.0  # of one rollout

    def expect(self, holds: bool, line: str) -> None:
        if not holds:
            self.wrong.append(line)


def whole_or_marked(r: Rollout) -> str | None:
    """Describe an error of a rollout: parts neither complete nor marked invalid, undefined numbers; None if correct."""
    valid, lost = r.valid, ~r.valid.any(0)
    if bool((valid[1:] & ~valid[:-1]).any()) or bool((valid[:-1] & ~valid[1:] & ~r.ended[:-1]).any()):
        return "a part that is neither whole nor marked"  # only an ended environment may wait for the pause
    if not bool(torch.isfinite(r.reward).all()) or bool((r.action[valid] < 0).any()):
        return "a reward or an action that is none"
    if bool(lost.any()) and bool((r.terminated | r.truncated | r.ended)[:, lost].any()):
        return "an end in a part that is marked as lost"
    return None


class Soak:
    """One long run."""

    def __init__(self, o: Options):
        self.o, self.found, self.events = o, Findings(), []
        self.ours = Ours(o.setting(), self.events.append)
        assert isinstance(self.ours.sampler.engine, WorkerPool)
        self.pool: WorkerPool = self.ours.sampler.engine
        self.agent = make_agent(o.net, self.ours.spec)
        self._random = random.Random(o.seed)
        self._recent: deque[tuple[float, int]] = deque(maxlen=400)  # (time, valid steps) of each rollout

    def collect(self) -> float:
        """Collect and check one rollout; returns the time at which it was complete."""
        begin = time.monotonic()
        r = self.ours.sampler.collect(self.agent)
        now, found = time.monotonic(), self.found
        found.rollouts += 1
        found.longest_s = max(found.longest_s, now - begin)
        if not bool(r.valid.any(0).all()):
            found.marked_rollouts += 1
        wrong = whole_or_marked(r)
        found.expect(wrong is None, f"rollout {found.rollouts}: {wrong}")
        self._recent.append((now, int(r.valid.sum())))
        return now

    def rate(self, seconds: float) -> float:
        """Valid env steps/s over the last seconds."""
        recent = [(t, n) for t, n in self._recent if t > self._recent[-1][0] - seconds]
        if len(recent) < 2:
            return 0.0
        return sum(n for _, n in recent[1:]) / (recent[-1][0] - recent[0][0])

    def sample_for(self, seconds: float, progress: ProgressDisplay, begun: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.collect()
            progress.update(int(time.monotonic() - begun), float("nan"))

    def kill(self) -> str:
        """SIGKILL a worker, every fourth time SIGSTOP."""
        pid = self._random.choice(self.pool.pids())
        self.found.kills += 1
        number = signal.SIGSTOP if self.found.kills % 4 == 0 else signal.SIGKILL
        psutil.Process(pid).send_signal(number)
        return f"{number.name} to pid {pid}"

    def until_back(self, rate: float, what: str) -> None:
        """Sample until all environments take part and the rate has recovered. A stopped worker is noticed after --hang
        seconds."""
        o, begin = self.o, time.monotonic()
        allowed = o.back + (o.hang if "SIGSTOP" in what else 0.0)
        full: float | None = None
        while time.monotonic() - begin < 4 * allowed:
            now = self.collect()
            everyone = not self.pool.absent()
            full = (full if full is not None else now) if everyone else None
            # one complete rollout suffices for the rate: earlier rollouts have missing parts
            if full is not None and now > full and self.rate(now - full) >= o.recovered * rate:
                break
        took = time.monotonic() - begin
        self.found.recovery_s.append(took)
        self.found.expect(took <= allowed, f"{what}: the rate was back after {took:.1f} s, not within {allowed:g} s")

    def run(self) -> dict[str, Any]:
        o = self.o
        begun = time.monotonic()
        progress = ProgressDisplay(int(60 * o.minutes), 0, "soak, seconds")
        try:
            self.ours.warm_up(self.agent)
            self.sample_for(min(o.kill_every, 10.0), progress, begun)
            rate, held = self.rate(10.0), None
            while held is None or time.monotonic() - begun < 60 * o.minutes:
                next_kill = time.monotonic() + o.kill_every
                self.until_back(self.rate(10.0), self.kill())
                self.sample_for(next_kill - time.monotonic(), progress, begun)
                held = held or Resources.now()  # after the first replacement, with all memory touched once
            after, rate_after = Resources.now(), self.rate(10.0)
        finally:
            progress.close()
            self.ours.close()
        self._judge(held, after)
        left = psutil.Process().children(recursive=True)
        self.found.expect(not left, f"{len(left)} processes outlived the sampler")
        return {
            **asdict(self.found),
            "seconds": time.monotonic() - begun,
            "env_steps_per_s": {"before": rate, "after": rate_after},
            "resources": {"before": asdict(held), "after": asdict(after)},
            "events": self.events,
        }

    def _judge(self, before: Resources, after: Resources) -> None:
        expect, o = self.found.expect, self.o
        slowest = o.hang + o.back
        expect(self.found.longest_s <= slowest, f"a rollout took {self.found.longest_s:.1f} s, not below {slowest:g} s")
        expect(after.processes == before.processes, f"processes: {before.processes}, then {after.processes}")
        expect(after.descriptors == before.descriptors, f"descriptors: {before.descriptors}, then {after.descriptors}")
        growth = after.memory / before.memory - 1
        expect(growth <= MEMORY_GROWTH, f"memory grew by {100 * growth:.1f} %, not at most {100 * MEMORY_GROWTH:g} %")


def report(o: Options, r: dict[str, Any]) -> list[str]:
    before, after = r["resources"]["before"], r["resources"]["after"]
    back = r["recovery_s"] or [0.0]
    return [
        f"{r['seconds']:.0f} s, {r['kills']} workers killed or stopped, {r['rollouts']:,} rollouts, "
        f"{r['marked_rollouts']} of them with a part marked as lost; the longest took {r['longest_s']:.2f} s",
        f"rate back after {statistics.median(back):.1f} s (median; most {max(back):.1f} s); env steps/s before "
        f"{r['env_steps_per_s']['before']:,.0f}, at the end {r['env_steps_per_s']['after']:,.0f}",
        f"processes {before['processes']} -> {after['processes']}, descriptors {before['descriptors']} -> "
        f"{after['descriptors']}, memory {before['memory'] / 2**20:,.1f} -> {after['memory'] / 2**20:,.1f} MiB",
        *(f"wrong: {line}" for line in r["wrong"]),
        f"{len(r['wrong'])} wrong" if r["wrong"] else "nothing is wrong",
    ]


def main(argv: list[str]) -> int:
    return program("soak", __doc__, Options, argv, Options.check, lambda o: Soak(o).run(), report)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
