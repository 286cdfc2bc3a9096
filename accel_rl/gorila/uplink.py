"""Through the uplink, all asynchronous ranks of one machine act as one learner of a parameter server.

Asynchronous ranks of a machine update the machine's central parameters in locked chunks (Stooke & Abbeel 2018, section
4.3). Each machine accumulates its ranks' updates (as in Stooke & Abbeel 2018, appendix A), and pushes the sum of the
updates to the shards of the parameter server. The shards also store the optimizer's state.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from accel_rl.distributed.central import Central, chunks
from accel_rl.distributed.locked_chunk import LOCK_S
from accel_rl.gorila.shard import AccumulatedPush, Pulled, PushCounts, Version
from accel_rl.gorila.transport import Future, ShardCalls, Transport
from accel_rl.optim.accumulated import Accumulated, Point, add_, between
from accel_rl.optim.optimizer import Optimizer
from accel_rl.settings.gorila_settings import ParameterServerConfig
from accel_rl.text.errors import ConfigError


class _Piece(NamedTuple):
    """A `_Piece` is a range of parameters that belongs to one chunk of the central parameters and to one shard."""

    chunk: int
    shard: int
    span: slice  # The slice of the parameter vector
    in_chunk: slice


class _State:
    """`_State` is a copy of all parameters and of the optimizer's state."""

    def __init__(self, size: int, names: list[str], pieces: int):
        # The vectors [P] contain the parameters and the tensors of the optimizer's state.
        self.vectors = {name: torch.zeros(size) for name in ("parameters", *names)}
        self.numbers: list[dict[str, float]] = [{} for _ in range(pieces)]  # The scalars of the optimizer's state

    def point(self, i: int, piece: _Piece) -> Point:
        state: dict[str, Any] = {name: x[piece.span] for name, x in self.vectors.items()}
        return Point(state.pop("parameters"), {**state, **self.numbers[i]})

    def set(self, i: int, piece: _Piece, point: Point) -> None:
        """Copy the parameters and the optimizer's state of `point` into piece number i."""
        for name, x in {"parameters": point.parameters, **point.optimizer}.items():
            if isinstance(x, Tensor):
                self.vectors[name][piece.span].copy_(x)
            else:
                self.numbers[i][name] = x


class Uplink:
    """An `Uplink` pushes the updates of a machine's central parameters to the shards, and pulls the updates of other
    machines.

        central parameters   o--- updates of the ranks ---o--- more of them ---o--- ...
                             |                            |                    ^
                            base                        taken                  | pulled + more of them
                                                          | taken - base       |
        shards               ----------------------------> push -> pull -------/

    Ranks continue to update the central parameters while a push is being sent. Updates during a push are added to the
    parameters that the shards return, and belong to the next push. If a shard discards a push, its updates are lost.
    """

    def __init__(self, central: Central, optimizer: Optimizer, config: ParameterServerConfig, learner: str):
        """`optimizer` is one of the ranks' optimizers, of any size. `learner` is the name by which the shards identify
        this machine. Raises ConfigError if the optimizer's updates cannot be accumulated."""
        decay = getattr(optimizer, "decay", None)
        if decay is None:
            raise ConfigError(
                f"--update async on a cluster: {type(optimizer).__name__} has no attribute `decay`; see "
                "optim/optimizer.py, or leave out --update"
            )
        self._central = central
        self._decay = dict(decay)
        self._config = config
        self._learner = learner
        size = central.parts[-1].stop
        self._slices = chunks(size, config.shards)
        self._pieces = list(_pieces(central.parts, self._slices))
        self._base, self._taken, self._pulled = (_State(size, list(decay), len(self._pieces)) for _ in range(3))
        self._base_updates = [0] * len(central.parts)  # The number of updates that the base of each chunk contains
        self._taken_updates = [0] * len(central.parts)
        self._versions: list[Version] = []  # The version of each shard from which the base was pulled
        self._sequence = 0  # The sequence number of the last push
        self._sent: list[tuple[Future, Future]] | None = None  # Each shard's pending (push, pull), or None
        self.counts = PushCounts()
        self.bytes_moved = 0

    def connect(self, transport: Transport) -> None:
        """Connect the machine to the shards, and copy the shards' parameters and optimizer state to the central
        parameters. Raises ValueError if the number of shards of `transport` differs from the settings."""
        if transport.shards != len(self._slices):
            raise ValueError(f"{transport.shards} shards, but the parameters are cut into {len(self._slices)} slices")
        self._calls = ShardCalls(transport, self._config.timeout_s)
        shards = range(transport.shards)
        self._sequence = max(self._calls.ask(shard, "join", self._learner) for shard in shards)
        self._note_pulled([self._calls.ask(shard, "pull", None, True) for shard in shards])
        for k in range(len(self._central.parts)):
            with self._central.held(k, LOCK_S):
                self._publish(k, [False] * len(self._slices))
                self._taken_updates[k] = self._central.updates(k)
        self._rebase()

    @property
    def updates(self) -> int:
        """Return the number of updates of the central parameters: the shards' updates at the last pull, plus the
        updates of this machine that the shards do not contain yet."""
        return self._versions[0].updates + self._central.updates(0) - self._base_updates[0]

    def look(self) -> None:
        """Process the shards' answers to the last push if they have arrived. Then push if no push is unanswered and the
        machine has made enough updates. Raises RunError if a lost shard is not replaced in time."""
        if self._sent is not None and all(push.done() and pull.done() for push, pull in self._sent):
            self._take_answers()
        if self._sent is None and self._new_updates() >= self._config.push_updates:
            self._push()

    def flush(self) -> None:
        """At the run's end, push the remaining updates and wait for the shards' answers."""
        if self._sent is not None:
            self._take_answers()
        if self._new_updates():
            self._push()
            self._take_answers()

    def _new_updates(self) -> int:
        return min(self._central.updates(k) - n for k, n in enumerate(self._base_updates))

    def _push(self) -> None:
        for k in range(len(self._central.parts)):
            with self._central.held(k, LOCK_S):
                for i, piece in self._pieces_of(k):
                    self._taken.set(i, piece, self._current(piece))
                self._taken_updates[k] = self._central.updates(k)
        parts: list[list[Accumulated]] = [[] for _ in self._slices]
        for i, piece in enumerate(self._pieces):
            updates = self._taken_updates[piece.chunk] - self._base_updates[piece.chunk]
            before, after = self._base.point(i, piece), self._taken.point(i, piece)
            parts[piece.shard].append(between(before, after, updates, self._decay))
        self._sequence += 1
        self._sent = []
        for shard, of_shard in enumerate(parts):
            push = AccumulatedPush(self._learner, self._sequence, self._versions[shard], of_shard)
            self._sent.append((self._calls.call(shard, "push", push), self._calls.call(shard, "pull", None, True)))
            self.bytes_moved += self._bytes_of(push.size)

    def _take_answers(self) -> None:
        """Wait for the shards' answers, and set the central parameters to the shards' parameters plus the updates that
        the ranks have made since the push."""
        sent, self._sent = self._sent or [], None
        pulled, keeps = [], []
        for shard, (push, pull) in enumerate(sent):
            answer = self._calls.answer(shard, push)
            self.counts.note(answer)
            keeps.append(answer != "not finite")  # The later updates of non-finite parameters are also discarded.
            pulled.append(self._calls.answer(shard, pull) or self._calls.ask(shard, "pull", None, True))
        self._note_pulled(pulled)
        for k in range(len(self._central.parts)):
            with self._central.held(k, LOCK_S):
                self._publish(k, keeps)
        self._rebase()

    def _note_pulled(self, pulled: list[Pulled]) -> None:
        self._versions = [p.version for p in pulled]
        for i, piece in enumerate(self._pieces):
            answer, begin = pulled[piece.shard], self._slices[piece.shard].start
            assert answer.parameters is not None and answer.optimizer is not None
            part = slice(piece.span.start - begin, piece.span.stop - begin)
            self._pulled.set(i, piece, Point(answer.parameters, answer.optimizer).part(part))
        self.bytes_moved += self._bytes_of(self._slices[-1].stop)

    def _publish(self, k: int, keeps: list[bool]) -> None:
        """Write the parameters and optimizer state of the shards to chunk k of the central parameters. For each shard
        whose entry in `keeps` is true, the ranks' updates since the last push are added. The caller must hold the
        chunk's lock."""
        updates = self._central.updates(k) - self._taken_updates[k]
        spare, numbers = self._central.spare(k), dict[str, float]()
        for i, piece in self._pieces_of(k):
            new = self._pulled.point(i, piece).copy()
            if keeps[piece.shard]:
                later = between(self._taken.point(i, piece), self._current(piece), updates, self._decay)
                changed = add_(new, later, self._decay)
                new = replace(new, optimizer={**new.optimizer, **changed})
            for name, x in {"parameters": new.parameters, **new.optimizer}.items():
                if isinstance(x, Tensor):
                    spare[name][piece.in_chunk].copy_(x)
                else:
                    numbers.setdefault(name, x)
        self._central.publish_spare(k, numbers)

    def _bytes_of(self, parameters: int) -> int:
        return 4 * parameters * (1 + len(self._decay))

    def _rebase(self) -> None:
        """Make the state that was pulled last the base of the next push."""
        self._base, self._pulled = self._pulled, self._base
        self._base_updates = list(self._taken_updates)

    def _pieces_of(self, k: int) -> Iterator[tuple[int, _Piece]]:
        return ((i, piece) for i, piece in enumerate(self._pieces) if piece.chunk == k)

    def _current(self, piece: _Piece) -> Point:
        """Return views of a piece's central parameters and optimizer state. The caller must hold the chunk's lock."""
        return Point(*self._central.read(piece.chunk)).part(piece.in_chunk)


def _pieces(parts: list[slice], slices: list[slice]) -> Iterator[_Piece]:
    """Split the parameters into pieces, each of which is within one chunk and one shard."""
    for k, chunk in enumerate(parts):
        for s, shard in enumerate(slices):
            begin, end = max(chunk.start, shard.start), min(chunk.stop, shard.stop)
            if begin < end:
                yield _Piece(k, s, slice(begin, end), slice(begin - chunk.start, end - chunk.start))
