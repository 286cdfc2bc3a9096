"""A discrete-event simulation of learners and shards of a parameter server (Nair et al. 2015, section 4).

A learner repeats: act and compute a gradient; push each shard its slice, and pull the shard's parameters. It goes on
while no more than `in_flight` updates are unanswered, with the parameters that have arrived. It takes the parameters of
an update when all shards have answered it. A shard carries out its calls one after the other. Learners and shards have
a machine each, whose network card sends, and receives, one message after the other.

Not simulated: faults, outlier losses, and the second pull of a learner with `in_flight` 0.
"""

import heapq
import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Costs:
    """Seconds of one learner's parts, of one shard's parts, and of the network.

    cycle_s: acting and a gradient, without a server. send_s, receive_s: a learner's own work for a push and a pull of
    one shard. push_s, pull_s: a shard's work for them; a discarded push takes `pull_s`. bytes: of a slice, each way.
    network: bytes a second of each machine, each way. latency_s: of a message. spread: a cycle takes 1 - spread to
    1 + spread times as long, uniformly.
    """

    cycle_s: float
    push_s: float
    pull_s: float
    send_s: float = 0.0
    receive_s: float = 0.0
    bytes: float = 0.0
    network: float = 1.25e9
    latency_s: float = 0.0
    spread: float = 0.2


@dataclass(frozen=True)
class Simulated:
    """Results of a simulation. Staleness: number of a shard's updates between a gradient's parameters and its arrival,
    over accepted and discarded gradients."""

    updates_per_s: float
    staleness_mean: float
    staleness_95: float
    discarded: float


def bounds(c: Costs, learners: int, shards: int) -> dict[str, float]:
    """Return the updates a second that each part alone would allow. learner: if it never waited."""
    return {
        "learner": learners / (c.cycle_s + shards * (c.send_s + c.receive_s)),
        "shard": 1 / (c.push_s + c.pull_s) if c.push_s + c.pull_s else float("inf"),
        "network": min(c.network / c.bytes, learners * c.network / (shards * c.bytes)) if c.bytes else float("inf"),
    }


class Link:
    """One direction of a network card."""

    def __init__(self) -> None:
        self.free_at = 0.0

    def end(self, ready: float, seconds: float) -> float:
        """Return when a message has passed that may begin at `ready`."""
        self.free_at = max(self.free_at, ready) + seconds
        return self.free_at


class Simulation:
    """Learners that push to shards; the same seed gives the same results."""

    def __init__(self, costs: Costs, learners: int, shards: int, in_flight: int, max_delay: int, seed: int = 0):
        self.costs, self.learners, self.shards = costs, learners, shards
        self.in_flight, self.max_delay = in_flight, max_delay
        self._random = random.Random(seed)
        self._events: list[tuple[float, int, str, tuple[int, ...]]] = []
        self._order = 0  # events of one time keep their order
        self._up, self._down = [Link() for _ in range(learners)], [Link() for _ in range(learners)]
        self._shard_up, self._shard_down = [Link() for _ in range(shards)], [Link() for _ in range(shards)]
        self._busy = [Link() for _ in range(shards)]  # the shard's own work
        self._versions = [0] * shards
        self._known = [[0] * shards for _ in range(learners)]  # versions of each learner's parameters
        self._used = [[0] * shards for _ in range(learners)]  # those of the gradient that is being computed
        self._sent = [0] * learners
        self._answers: list[dict[int, dict[int, int]]] = [{} for _ in range(learners)]  # update -> shard -> version
        self._waiting = [False] * learners
        self._owed = [0.0] * learners  # seconds of work for answers that have arrived
        self.accepted: list[tuple[float, int]] = []  # (time, staleness) at the first shard
        self.stale: list[tuple[float, int]] = []

    def run(self, updates: int) -> Simulated:
        """Simulate until the first shard has had this many pushes; the first fifth is left out of the results."""
        for learner in range(self.learners):
            self._at(0.0, "begin", learner)
        while len(self.accepted) + len(self.stale) < updates:
            now, _, kind, what = heapq.heappop(self._events)
            getattr(self, f"_{kind}")(now, *what)
        pushes = sorted(self.accepted + self.stale)
        began = pushes[len(pushes) // 5][0]
        counted = sorted(delay for at, delay in pushes if at > began)
        taken = sum(at > began for at, _ in self.accepted)
        return Simulated(
            taken / (pushes[-1][0] - began),
            sum(counted) / len(counted),
            counted[int(0.95 * (len(counted) - 1))],
            1 - taken / len(counted),
        )

    def _at(self, time: float, kind: str, *what: int) -> None:
        self._order += 1
        heapq.heappush(self._events, (time, self._order, kind, what))

    def _begin(self, now: float, learner: int) -> None:
        """Begin a cycle with the parameters that have arrived, after the work of taking them."""
        now, self._owed[learner] = now + self._owed[learner], 0.0
        self._used[learner] = list(self._known[learner])
        spread = self.costs.spread * (2 * self._random.random() - 1)
        self._at(now + self.costs.cycle_s * (1 + spread), "push", learner)

    def _push(self, now: float, learner: int) -> None:
        """Send all slices, one after the other."""
        c, update = self.costs, self._sent[learner]
        self._sent[learner] += 1
        self._answers[learner][update] = {}
        for shard in range(self.shards):
            now += c.send_s
            there = self._up[learner].end(now, c.bytes / c.network) + c.latency_s
            self._at(there, "serve", learner, shard, update, self._used[learner][shard])
        self._at(now, "sent_all", learner)

    def _sent_all(self, now: float, learner: int) -> None:
        self._waiting[learner] = True
        self._go_on(now, learner)

    def _serve(self, now: float, learner: int, shard: int, update: int, version: int) -> None:
        """Take a push when it has passed the shard's network card, and answer its pull."""
        c, seconds = self.costs, self.costs.bytes / self.costs.network
        here = self._shard_down[shard].end(now - seconds, seconds)
        delay = self._versions[shard] - version
        is_taken = delay <= self.max_delay
        done = self._busy[shard].end(here, (c.push_s if is_taken else c.pull_s) + c.pull_s)
        self._versions[shard] += is_taken
        if shard == 0:
            (self.accepted if is_taken else self.stale).append((done, delay))
        back = self._shard_up[shard].end(done, seconds) + c.latency_s
        self._at(back, "receive", learner, shard, update, self._versions[shard])

    def _receive(self, now: float, learner: int, shard: int, update: int, version: int) -> None:
        seconds = self.costs.bytes / self.costs.network
        self._at(self._down[learner].end(now - seconds, seconds), "answer", learner, shard, update, version)

    def _answer(self, now: float, learner: int, shard: int, update: int, version: int) -> None:
        """Take the parameters of an update once all shards have answered it."""
        found = self._answers[learner][update]
        found[shard] = version
        if len(found) == self.shards:
            del self._answers[learner][update]
            known = self._known[learner]
            self._known[learner] = [max(known[i], found[i]) for i in range(self.shards)]
            self._owed[learner] += self.shards * self.costs.receive_s
            self._go_on(now, learner)

    def _go_on(self, now: float, learner: int) -> None:
        """Begin the next cycle if the learner has pushed, and few enough updates are unanswered."""
        if self._waiting[learner] and len(self._answers[learner]) <= self.in_flight:
            self._waiting[learner] = False
            self._begin(now, learner)
