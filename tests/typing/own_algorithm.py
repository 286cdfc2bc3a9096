"""A user's script: an algorithm with a setting of its own, a callback and a sink."""

from dataclasses import dataclass

import accel_rl
from accel_rl import A2C, Callback, Sink
from accel_rl.algos.a2c import A2CConfig
from accel_rl.algos.algorithm import Loss
from accel_rl.algos.policy_gradient import PolicyBatch


@dataclass(frozen=True)
class MyConfig(A2CConfig):
    scale: float = 1.0


class MyA2C(A2C):
    Config = MyConfig

    def loss(self, batch: PolicyBatch) -> Loss:
        loss = super().loss(batch)
        loss.total = loss.total * self.config.scale
        return loss


class Stop(Callback):
    pass


class Rows(Sink):
    pass


run = accel_rl.train(MyConfig(scale=2.0), env="CartPole-v1", callbacks=[Stop()], sinks=[Rows], ranks=2, cores=range(2))
