"""Learners that push random gradients to parameter shards in this process, and transports that delay, repeat or lose
calls."""

import pickle
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from accel_rl import Callback
from accel_rl.distributed.gradient_sync import Local
from accel_rl.distributed.guarded_step import GuardedStep
from accel_rl.gorila.sharded_sync import ShardedSync
from accel_rl.gorila.transport import ShardUnavailable
from accel_rl.optim.flat import FlatParameters
from accel_rl.optim.optimizers import AdaGrad, Adam, RMSProp
from accel_rl.settings.gorila_settings import ParameterServerConfig

OPTIMIZERS = {
    "adagrad": lambda n: AdaGrad(n, epsilon=1e-6),
    "adam": lambda n: Adam(n, epsilon=1e-5),
    "adam-epsilon-hat": lambda n: Adam(n, epsilon=1e-5, epsilon_hat=True),
    "rmsprop": lambda n: RMSProp(n, 0.99, 1e-5, epsilon_inside=True),
    "rmsprop-torch": lambda n: RMSProp(n, 0.99, 1e-5, epsilon_inside=False),
    "rmsprop-centered": lambda n: RMSProp(n, 0.99, 1e-5, epsilon_inside=True, centered=True),
}
EXACT = {"max_delay": 0, "in_flight": 0, "outlier_deviations": 0.0}
"""Settings of a parameter server with which one learner trains exactly as without shards."""


class Subtract:
    """An optimizer that subtracts the gradient."""

    def __init__(self, n: int) -> None: ...

    def step(self, data: Tensor, grad: Tensor, learning_rate: Any, finite: Tensor | None = None) -> None:
        data -= grad

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


class Answered:
    """The future of a shard's call that has already been executed."""

    def __init__(self, value):
        self.value = value

    def done(self):
        return True

    def result(self, timeout_s):
        return self.value


class InProcess:
    """A transport to parameter shards in this process, which executes each call immediately."""

    def __init__(self, shards):
        self._shards = list(shards)

    @property
    def shards(self):
        return len(self._shards)

    def call(self, shard, method, *arguments):
        return Answered(getattr(self._shards[shard], method)(*arguments))


class SavesShards(ShardedSync):
    """The gradient sync of a learner whose checkpoints contain the state of the shards, as those of a Gorila driver
    do."""

    def state_dict(self):
        super().state_dict()
        return self.state_of([self._calls.ask(shard, "snapshot") for shard in range(len(self.parts))])


def flat_of():
    torch.manual_seed(0)
    return FlatParameters(torch.nn.Linear(999, 1))


def sync_of(name="learner-0", optimizer="adagrad", max_norm=None, **settings):
    return SavesShards(flat_of(), OPTIMIZERS[optimizer], max_norm, ParameterServerConfig(**{**EXACT, **settings}), name)


def connected(sync, transport=None):
    """Connect the gradient sync of a learner to the shards of a transport, or to new shards, and return the gradient
    sync."""
    sync.transport = transport or InProcess(sync.build_shards())
    sync.connect(sync.transport)
    return sync


def local_of(optimizer="adagrad", max_norm=None):
    flat = flat_of()
    return Local(GuardedStep(flat, OPTIMIZERS[optimizer](len(flat.data)), max_norm))


def compute(sync, seed, loss=0.0):
    """Pull parameters, and draw a random gradient. Returns a function that makes a learner's step with the drawn
    gradient."""
    sync.pull()
    sync.flat.grad.copy_(torch.randn(len(sync.flat.grad), generator=torch.Generator().manual_seed(seed)))
    return lambda rate=1e-2: sync.step(rate, torch.tensor(loss))


def learn(sync, seeds, loss=0.0):
    for seed in seeds:
        compute(sync, seed, loss)()
    return sync.flat.data.clone()


class Later:
    """A call of a shard that is executed when its result is awaited, or when the transport delivers the call."""

    def __init__(self, transport, shard, method, arguments):
        copied = pickle.loads(pickle.dumps(arguments))  # as Ray copies arguments
        self.transport, self.call, self.answer = transport, (shard, method, *copied), None

    def done(self):
        return self.answer is not None

    def deliver(self):
        if self.answer is None:
            self.answer = self.transport.inner.call(*self.call)

    def result(self, timeout_s):
        self.transport.deliver(self)
        return self.answer.result(timeout_s)


class Slow:
    """A transport that executes calls in order, but only when `deliver` is called or a result is awaited."""

    def __init__(self, inner):
        self.inner, self.waiting = inner, []

    @property
    def shards(self):
        return self.inner.shards

    def call(self, shard, method, *arguments):
        self.waiting.append(Later(self, shard, method, arguments))
        return self.waiting[-1]

    def deliver(self, until=None):
        while self.waiting:
            call = self.waiting.pop(0)
            call.deliver()
            if call is until:
                return


class Lost:
    def __init__(self, shard):
        self.shard = shard

    def done(self):
        return True

    def result(self, timeout_s):
        raise ShardUnavailable(f"shard {self.shard} is gone")


class Unreliable:
    """A transport that loses the calls for which loses(shard, method) is true. With `after`, the
    shards execute the lost calls, and only the answers are lost."""

    def __init__(self, inner, after=False):
        self.inner, self.after, self.loses = inner, after, lambda shard, method: False

    @property
    def shards(self):
        return self.inner.shards

    def call(self, shard, method, *arguments):
        if not self.loses(shard, method):
            return self.inner.call(shard, method, *arguments)
        if self.after:
            self.inner.call(shard, method, *arguments)
        return Lost(shard)


class Repeats:
    """A transport that delivers every push twice, and returns the shard's answer to the second delivery."""

    def __init__(self, inner):
        self.inner = inner

    @property
    def shards(self):
        return self.inner.shards

    def call(self, shard, method, *arguments):
        if method == "push":
            self.inner.call(shard, method, *arguments)
        return self.inner.call(shard, method, *arguments)


@dataclass
class EndAt(Callback):
    """Ends a run at the first checkpoint after `env_steps` env steps."""

    env_steps: int

    def on_start(self, training):
        training.event(f"started at {training.env_steps}")
        self.checkpoints = 0

    def on_checkpoint(self, training, path):
        self.checkpoints += 1
        training.log("checkpoints", self.checkpoints)
        return training.env_steps < self.env_steps
