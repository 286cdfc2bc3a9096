import math
import pickle

import pytest
import torch

from accel_rl.gorila.shard import Pulled, Push, Shard, Version
from tests.gorila.made_up import OPTIMIZERS

N = 70


def shard_of(max_delay=2, optimizer="adagrad"):
    return Shard(torch.zeros(N), OPTIMIZERS[optimizer](N), max_delay)


def push(shard, sequence, learner="a", delay=0, epoch=None, rate=0.1, gradient=None):
    now = shard.version
    version = Version(now.epoch if epoch is None else epoch, now.updates - delay, now.pushes - delay)
    gradient = torch.full((N,), float(sequence)) if gradient is None else gradient
    return shard.push(Push(learner, sequence, version, rate, gradient))


def test_an_accepted_push_is_one_optimizer_step():
    shard, data, optimizer = shard_of(), torch.zeros(N), OPTIMIZERS["adagrad"](N)
    for i in (1, 2, 3):
        assert push(shard, i) == "accepted"
        optimizer.step(data, torch.full((N,), float(i)), 0.1)
    pulled = shard.pull(None)
    assert torch.equal(pulled.parameters, data) and pulled.version.updates == 3 == shard.counts["accepted"]


def test_a_pull_brings_only_what_is_new():
    shard = shard_of()
    first = shard.pull(None)
    assert shard.pull(first.version).parameters is None
    push(shard, 1)
    second = shard.pull(first.version)
    assert second.parameters is not None and second.version == Version(first.version.epoch, 1, 1)
    before = second.parameters.clone()
    push(shard, 2)
    assert torch.equal(second.parameters, before)  # a copy


@pytest.mark.parametrize("max_delay", [0, 1, 5])
def test_gradients_older_than_the_maximum_are_discarded(max_delay):
    shard = shard_of(max_delay)
    for i in range(1, 11):
        assert push(shard, i) == "accepted"
    before = shard.pull(None).parameters
    assert push(shard, 11, delay=max_delay + 1) == "stale"
    assert torch.equal(shard.pull(None).parameters, before) and shard.version.updates == 10
    assert push(shard, 12, delay=max_delay) == "accepted"
    assert (shard.counts["accepted"], shard.counts["stale"], shard.counts["delay"]) == (11, 1, max_delay)


def test_a_push_counts_once():
    shard = shard_of()
    assert push(shard, 1) == "accepted" and push(shard, 3) == "accepted"
    before = shard.pull(None).parameters
    assert [push(shard, i) for i in (1, 2, 3)] == ["duplicate"] * 3
    assert torch.equal(shard.pull(None).parameters, before) and shard.counts["duplicate"] == 3
    assert push(shard, 1, learner="b") == "accepted"  # Each learner numbers its pushes from 1.
    assert (shard.join("a"), shard.join("b"), shard.join("c")) == (3, 1, 0)


def test_a_push_that_was_discarded_is_not_accepted_later():
    shard = shard_of(max_delay=0)
    push(shard, 1)
    assert push(shard, 2, delay=1) == "stale" and push(shard, 2) == "duplicate"


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_what_is_not_finite_is_refused(bad, optimizer):
    shard = shard_of(optimizer=optimizer)
    push(shard, 1)
    before, gradient = shard.snapshot(), torch.ones(N)
    gradient[-1] = bad
    assert push(shard, 2, gradient=gradient) == "refused" and push(shard, 3, rate=bad) == "refused"
    after = shard.snapshot()
    assert torch.equal(before.parameters, after.parameters) and before.updates == after.updates == 1
    assert all(
        torch.equal(torch.as_tensor(x), torch.as_tensor(after.optimizer[n])) for n, x in before.optimizer.items()
    )
    assert shard.counts["refused"] == 2


def test_a_gradient_of_another_size_is_an_error():
    with pytest.raises(ValueError, match="70 parameters"):
        push(shard_of(), 1, gradient=torch.ones(1))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_restored_shard_goes_on_from_its_snapshot_in_a_new_epoch(optimizer):
    shard = shard_of(optimizer=optimizer)
    for i in (1, 2, 3):
        push(shard, i)
    snapshot, epoch = shard.snapshot(), shard.version.epoch
    push(shard, 4)
    expected = shard.pull(None).parameters
    push(shard, 5)
    other = shard_of(optimizer=optimizer)  # replaces the dead shard
    other.restore(snapshot)
    assert other.version.epoch != epoch and other.version.updates == 3 and other.counts["accepted"] == 3
    # A learner that has parameters of an earlier epoch always gets new parameters.
    assert other.pull(Version(epoch, 3, 3)).parameters is not None
    assert push(other, 3) == "duplicate"
    assert push(other, 4, epoch=epoch) == "stale"
    assert push(other, 5, gradient=torch.full((N,), 4.0)) == "accepted"
    assert torch.equal(other.pull(None).parameters, expected)
    assert snapshot.updates == 3 and snapshot.sequences == {"a": 3} and snapshot.counts["accepted"] == 3  # a copy


def test_two_restores_of_one_snapshot_are_two_epochs():
    shard = shard_of()
    snapshot, epochs = shard.snapshot(), {shard.version.epoch}
    for _ in range(5):
        shard.restore(snapshot)
        epochs.add(shard.version.epoch)
    assert len(epochs) == 6


@pytest.mark.parametrize("n", [0, 3, 300_000])
def test_messages_arrive_as_they_were_and_their_tensors_are_not_copied(n):
    """Messages are pickled as Ray does: tensors are buffers outside the pickle, which the receiver reads without a
    copy."""
    version = Version(2**62 - 1, 5, 5)
    values = torch.cat([torch.randn(n), torch.tensor([math.nan, math.inf, -0.0])])
    for message in (Push("a", 1, version, 0.1 + 0.2, values), Pulled(version, values), Pulled(version, None)):
        buffers = []
        text = pickle.dumps(message, protocol=5, buffer_callback=buffers.append)
        received = pickle.loads(text, buffers=[bytes(b.raw()) for b in buffers])
        assert type(received) is type(message) and len(text) < 1_000
        for name in message.__slots__:
            a, b = getattr(message, name), getattr(received, name)
            same = torch.equal(a.view(torch.int32), b.view(torch.int32)) if isinstance(a, torch.Tensor) else a == b
            assert same, name
