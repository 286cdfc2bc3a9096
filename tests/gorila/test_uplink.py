"""Machines in one process: each has central parameters, ranks that update them, and an uplink to shards."""

import os

import pytest
import torch

from accel_rl.distributed.central import Central
from accel_rl.distributed.locked_chunk import LockedChunks
from accel_rl.distributed.multi_step_adam import MultiStepAdam
from accel_rl.gorila.shard import PushCounts
from accel_rl.gorila.transport import InProcess
from accel_rl.gorila.uplink import Uplink
from accel_rl.settings.gorila_settings import ParameterServerConfig
from accel_rl.text.errors import ConfigError
from tests.gorila.made_up import (
    OPTIMIZERS,
    Slow,
    Unreliable,
    connected,
    flat_of,
    learn,
    local_of,
    sync_of,
)


def shards_of(n=3, optimizer="adam", max_delay=100):
    return sync_of(optimizer=optimizer, shards=n, max_delay=max_delay).build_shards()


class Machine:
    """Central parameters with `ranks` ranks."""

    def __init__(self, transport, name="a", ranks=1, optimizer="adam", chunks=2, **settings):
        self.fd, build = os.memfd_create("test"), OPTIMIZERS[optimizer]
        self.ranks = [LockedChunks(flat_of(), build, None, chunks, r) for r in range(ranks)]
        first = self.ranks[0]
        self.central = Central(first.parts, first.states(), self.fd, create=True)
        config = ParameterServerConfig(shards=transport.shards, **settings)
        self.uplink = Uplink(self.central, first.optimizers[0], config, name)
        self.uplink.connect(transport)
        for rank in self.ranks:
            rank.connect(self.central, publish=False)

    def learn(self, seeds, rank=0):
        learn(self.ranks[rank], seeds)

    def parameters(self):
        return torch.cat([self.central.read(k)[0] for k in range(len(self.central))])


@pytest.fixture
def machines():
    built = []
    yield lambda *a, **k: built.append(Machine(*a, **k)) or built[-1]
    for machine in built:
        os.close(machine.fd)


def local(seeds, optimizer="adam"):
    sync = local_of(optimizer)
    learn(sync, seeds)
    return sync


def state(shards):
    snapshots = [shard.snapshot() for shard in shards]
    tensors = {n: torch.cat([s.optimizer[n] for s in snapshots]) for n in shards[0].optimizer.decay}
    return torch.cat([s.parameters for s in snapshots]), tensors


def close(got, expected):
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_one_machine_leads_the_shards_where_local_training_leads(machines, name, shards):
    shards = shards_of(shards, name)
    machine, expected = machines(InProcess(shards), optimizer=name, chunks=2), local(range(20), name)
    for i in range(20):
        machine.learn([i])
        if i % 3 == 0:
            machine.uplink.look()
    machine.uplink.flush()
    machine.uplink.flush()
    parameters, tensors = state(shards)
    close(parameters, expected.flat.data)
    close(machine.parameters(), expected.flat.data)
    for key, x in expected.guarded.optimizer.state_dict().items():
        if isinstance(x, torch.Tensor):
            close(tensors[key], x)
        else:
            assert {shard.optimizer.state_dict()[key] for shard in shards} == {x} == {20}
    assert {shard.version.updates for shard in shards} == {20} == {machine.uplink.updates}
    assert {shard.counts.accepted for shard in shards} == {8} == {shard.version.pushes for shard in shards}


def test_updates_made_while_a_push_is_on_its_way_are_kept_and_pushed_next(machines):
    shards = shards_of()
    slow = Slow(InProcess(shards))
    machine = machines(slow)
    machine.learn(range(4))
    machine.uplink.look()
    machine.learn(range(4, 9))
    assert not shards[0].counts.accepted
    slow.deliver()
    machine.uplink.look()  # takes the answers, and pushes again
    close(machine.parameters(), local(range(9)).flat.data)
    close(state(shards)[0], local(range(4)).flat.data)
    machine.uplink.flush()
    close(state(shards)[0], local(range(9)).flat.data)


def test_two_machines_equal_appendix_a(machines):
    """m and v of the shards decay by the updates of both machines, and each adds its steps, in the order of pushes."""
    shards = shards_of(2)
    a, b = machines(InProcess(shards), "a", push_updates=3), machines(InProcess(shards), "b", push_updates=2)
    a.learn(range(3))
    b.learn(range(10, 12))
    alone_a, alone_b = local(range(3)), local(range(10, 12))
    start = flat_of().data.clone()
    a.uplink.look()
    b.uplink.look()
    beta_1, beta_2 = shards[0].optimizer.beta_1, shards[0].optimizer.beta_2
    parameters, tensors = state(shards)
    close(parameters, start + (alone_a.flat.data - start) + (alone_b.flat.data - start))
    close(tensors["mean"], beta_1**2 * alone_a.guarded.optimizer.mean + alone_b.guarded.optimizer.mean)
    close(tensors["square"], beta_2**2 * alone_a.guarded.optimizer.square + alone_b.guarded.optimizer.square)
    assert {shard.version.updates for shard in shards} == {5} == {int(s.optimizer.steps) for s in shards}
    b.uplink.flush()
    close(b.parameters(), parameters)
    assert b.central.read(0)[1]["steps"] == 5
    assert [shard.counts.delay for shard in shards] == [1, 1]


def test_ranks_see_what_other_machines_learned(machines):
    shards = shards_of()
    a, b = machines(InProcess(shards), "a", ranks=2), machines(InProcess(shards), "b")
    a.learn([1], rank=0)
    a.learn([2], rank=1)
    a.uplink.flush()
    b.learn([3])
    b.uplink.flush()
    b.ranks[0].pull()
    close(b.ranks[0].flat.data, state(shards)[0])
    close(b.parameters(), state(shards)[0])
    assert b.uplink.updates == 3


def test_several_local_updates_between_two_pushes_of_a_rank(machines):
    shards = shards_of()
    machine = machines(InProcess(shards), chunks=3)
    rank = MultiStepAdam(flat_of(), OPTIMIZERS["adam"], None, 3, local_updates=4)
    rank.connect(machine.central, publish=False)
    learn(rank, range(8))
    machine.uplink.flush()
    close(state(shards)[0], local(range(8)).flat.data)
    assert shards[0].version.updates == 8 and shards[0].counts.accepted == 1


def test_pushes_wait_for_enough_updates(machines):
    shards = shards_of(1)
    machine = machines(InProcess(shards), push_updates=5)
    for seed in range(14):
        machine.learn([seed])
        machine.uplink.look()
    assert shards[0].counts.accepted == 2 and shards[0].version.updates == 10


def test_old_updates_are_discarded_and_later_ones_are_not(machines):
    shards = shards_of(2, max_delay=1)
    slow = Slow(InProcess(shards))
    a, b = machines(slow, "a"), machines(InProcess(shards), "b")
    a.learn([0])
    a.uplink.look()
    for seed in (10, 11):
        b.learn([seed])
        b.uplink.flush()
    a.learn([1])
    a.uplink.flush()
    assert a.uplink.counts == PushCounts(stale=2, accepted=2) and shards[0].counts.stale == 1
    close(a.parameters(), state(shards)[0])
    assert shards[0].version.updates == 3


@pytest.mark.parametrize("after", [False, True], ids=["the call", "its answer"])
def test_a_lost_push_is_counted_and_never_repeated(machines, after):
    shards = shards_of(2)
    transport = Unreliable(InProcess(shards), after)
    machine = machines(transport)
    machine.learn(range(3))
    transport.loses = lambda shard, method: method == "push"
    machine.uplink.flush()
    transport.loses = lambda shard, method: False
    assert machine.uplink.counts == PushCounts(lost=2)
    close(machine.parameters(), local(range(3) if after else ()).flat.data)
    close(machine.parameters(), state(shards)[0])
    machine.learn([3])
    machine.uplink.flush()
    assert machine.uplink.counts == PushCounts(lost=2, accepted=2)


def test_a_shard_that_returns_in_a_new_epoch_is_pulled_whole(machines):
    shards = shards_of(2)
    machine = machines(InProcess(shards))
    machine.learn(range(3))
    machine.uplink.flush()
    snapshot, expected = shards[1].snapshot(), state(shards)[0]
    machine.learn([3])
    shards[1].restore(snapshot)
    machine.uplink.flush()
    assert machine.uplink.counts.stale == 1
    close(machine.parameters(), state(shards)[0])
    close(machine.parameters()[machine.uplink._slices[1]], expected[machine.uplink._slices[1]])


def test_what_is_not_finite_never_reaches_the_shards(machines):
    shards = shards_of(1)
    machine = machines(InProcess(shards))
    machine.learn([0])
    machine.uplink.flush()
    before = state(shards)[0]
    machine.central.read(0)[0][3] = float("nan")
    machine.learn([1])
    machine.uplink.flush()
    assert shards[0].counts.refused == 1 and torch.equal(state(shards)[0], before)
    close(machine.parameters(), before)


def test_gradients_and_accumulated_updates_go_to_the_same_shards(machines):
    shards = shards_of(3)
    machine, learner = machines(InProcess(shards)), sync_of("learner", "adam", shards=3, max_delay=5)
    connected(learner, InProcess(shards))
    machine.learn(range(2))
    learn(learner, [5])
    machine.uplink.flush()
    learner.pull()
    close(learner.flat.data, state(shards)[0])
    assert {shard.version.updates for shard in shards} == {3}


def test_an_optimizer_without_decay_is_named_in_one_line(machines):
    class Lion:
        pass

    machine = machines(InProcess(shards_of(1)))
    with pytest.raises(ConfigError, match="Lion has no attribute `decay`"):
        Uplink(machine.central, Lion(), ParameterServerConfig(), "a")
