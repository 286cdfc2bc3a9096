"""Learners with parameter shards train exactly as without shards, also after lost or late calls. The parameter shards
of the tests are objects in the test's process."""

import time
from collections import Counter
from dataclasses import replace

import pytest
import torch

from accel_rl.gorila.shard import Push
from accel_rl.gorila.sharded_sync import WARM_UP
from accel_rl.optim.flat import FlatParameters
from accel_rl.optim.optimizers import make_optimizer
from accel_rl.settings.gorila_settings import GorilaConfig, ParameterServerConfig
from accel_rl.text.errors import RunError
from tests.gorila.made_up import (
    EXACT,
    OPTIMIZERS,
    InProcess,
    Repeats,
    SavesShards,
    Slow,
    Unreliable,
    compute,
    connected,
    flat_of,
    learn,
    local_of,
    sync_of,
)

GPU = "sim:0"


@pytest.mark.parametrize("shards", [1, 3, 31])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_one_learner_equals_local_training_bit_for_bit(optimizer, shards):
    """With any number of shards, one learner trains exactly as without shards. Gradients are clipped by the norm of the
    whole gradient."""
    expected = learn(local_of(optimizer, 0.5), range(20))
    sync = connected(sync_of(optimizer=optimizer, max_norm=0.5, shards=shards))
    assert torch.equal(learn(sync, range(20)), expected)
    assert sync.counts == Counter(accepted=20 * len(sync.parts))


def test_the_step_returns_the_norm_before_clipping():
    local, sync = local_of(max_norm=0.5), connected(sync_of(max_norm=0.5, shards=3))
    assert torch.equal(compute(sync, 1)(), compute(local, 1)())


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_learners_that_take_turns_are_one(optimizer, shards):
    """Two learners that push alternately compute the parameters of a single learner. Shards hold the optimizer
    state."""
    a = connected(sync_of("a", optimizer, shards=shards))
    b = connected(sync_of("b", optimizer, shards=shards), a.transport)
    single = local_of(optimizer)
    for i in range(12):
        learn((a, b)[i % 2], [i])
        learn(single, [i])
    a.pull_now()
    b.pull_now()
    assert torch.equal(a.flat.data, single.flat.data) and torch.equal(b.flat.data, single.flat.data)
    assert a.counts == b.counts == Counter(accepted=6 * len(a.parts))


@pytest.mark.parametrize(("max_delay", "accepted"), [(0, False), (1, True)])
def test_a_gradient_is_as_old_as_the_updates_since_its_parameters(max_delay, accepted):
    a = connected(sync_of("a", shards=3, max_delay=max_delay))
    b = connected(sync_of("b", shards=3, max_delay=max_delay), a.transport)
    single = local_of()
    late = compute(a, 0)
    learn(b, [1])
    learn(single, [1])
    late()
    if accepted:
        learn(single, [0])
    assert a.counts == (Counter(accepted=3) if accepted else Counter(stale=3))
    # Learner `a` has the newest parameters, even if the shards refused its late gradient as stale.
    assert torch.equal(a.flat.data, single.flat.data)
    learn(a, [2])
    learn(single, [2])
    assert torch.equal(a.flat.data, single.flat.data)


def test_the_learners_rate_is_the_shards():
    local, sync = local_of(), connected(sync_of(shards=2))
    for i, rate in enumerate((0.1, 0.01, 0.5)):
        compute(local, i)(rate)
        compute(sync, i)(torch.tensor(rate))
    torch.testing.assert_close(sync.flat.data, local.flat.data)


@pytest.mark.parametrize("in_flight", [0, 1, 2])
def test_at_most_so_many_pushes_are_unanswered(in_flight):
    sync = connected(sync_of(shards=3, in_flight=in_flight, max_delay=2))
    sync._calls.transport = slow = Slow(sync.transport)
    for i in range(8):
        sync.flat.grad.fill_(float(i + 1))
        sync.step(0.01, torch.zeros(()))
        assert len(sync._in_flight) == min(i + 1, in_flight)
        assert sum(call.call[1] == "push" for call in slow.waiting) == 3 * min(i + 1, in_flight)
    assert sync.counts["accepted"] == 3 * (8 - in_flight)
    sync.state_dict()
    assert sync.counts["accepted"] == 24 and not sync._in_flight
    assert [shard.counts["delay"] for shard in sync.transport._shards] == [sum(min(i, in_flight) for i in range(8))] * 3


def test_answers_that_have_arrived_are_taken_without_waiting():
    sync = connected(sync_of(shards=2, in_flight=2, max_delay=2))
    sync._calls.transport = slow = Slow(sync.transport)
    before = sync.flat.data.clone()
    sync.flat.grad.fill_(1.0)
    sync.step(0.01, torch.zeros(()))
    sync.pull()
    assert torch.equal(sync.flat.data, before) and sync.counts["accepted"] == 0
    slow.deliver()
    sync.pull()
    assert not torch.equal(sync.flat.data, before) and sync.counts["accepted"] == 2
    assert torch.equal(sync.flat.data, sync.state_dict()["parameters"])


def test_old_answers_do_not_replace_newer_parameters():
    sync = connected(sync_of(in_flight=2, max_delay=2))
    other = connected(sync_of("other", max_delay=2), sync.transport)
    sync._calls.transport = slow = Slow(sync.transport)
    learn(sync, [0])
    slow.deliver()  # The shards have answered, but the learner has not read the answers.
    learn(other, [1])
    sync.pull_now()
    newest = other.flat.data.clone()
    assert torch.equal(sync.flat.data, newest)
    sync.pull()
    assert torch.equal(sync.flat.data, newest)


def test_old_answers_of_an_earlier_epoch_do_not_either():
    sync = connected(sync_of(in_flight=2, max_delay=2))
    (shard,) = sync.transport._shards
    snapshot = shard.snapshot()
    sync._calls.transport = slow = Slow(sync.transport)
    learn(sync, [0])
    slow.deliver()
    shard.restore(snapshot)
    sync.pull_now()
    sync.pull()
    assert sync._versions == [shard.version] and torch.equal(sync.flat.data, snapshot.parameters)


def test_a_gradient_in_flight_is_not_overwritten_by_the_next():
    sync, single = connected(sync_of(in_flight=1, max_delay=1)), local_of()
    sync._calls.transport = Slow(sync.transport)
    for value in (1.0, -3.0):
        for x in (sync, single):
            x.flat.grad.fill_(value)
            x.step(0.01, torch.zeros(()))
    assert torch.equal(sync.state_dict()["parameters"], single.flat.data)


@pytest.mark.parametrize("where", ["gradient", "loss"])
def test_what_is_not_finite_is_never_pushed(where):
    sync = connected(sync_of(max_norm=0.5, shards=3))
    before = sync.flat.data.clone()
    sync.flat.grad.fill_(float("nan") if where == "gradient" else 1.0)
    sync.step(0.01, torch.tensor(float("inf") if where == "loss" else 0.0))
    assert (sync.skips.total, sync.skips.in_a_row, sync.skips.seen_in_a_row) == (1, 1, 1)
    assert torch.equal(sync.flat.data, before) and sync.counts == Counter() and sync._sequence == 0
    learn(sync, [0])
    assert (sync.skips.total, sync.skips.in_a_row) == (1, 0) and sync.counts["accepted"] == 3


def test_gradients_of_outlier_losses_are_discarded():
    sync, single = connected(sync_of(shards=2, outlier_deviations=4.0)), local_of()
    for i in range(WARM_UP + 10):
        learn(sync, [i], loss=1.0 + 0.1 * (i % 3))
        learn(single, [i])
    learn(sync, [0], loss=-50.0)
    assert sync.counts["outliers"] == 1 and torch.equal(sync.flat.data, single.flat.data)
    learn(sync, [1], loss=1.0)
    learn(single, [1])
    assert sync.counts == Counter(outliers=1, accepted=2 * (WARM_UP + 11))
    assert torch.equal(sync.flat.data, single.flat.data)


@pytest.mark.parametrize(
    ("bundles", "learners", "in_flight", "limit"),
    [(1, 0, 0, 101), (2, 0, 1, 104), (100, 0, 0, 200), (100, 0, 1, 300), (50, 150, 2, 800)],
)
def test_the_largest_delay_grows_with_the_learners(bundles, learners, in_flight, limit):
    config = GorilaConfig(bundles=bundles, learners=learners, in_flight=in_flight, replay="global")
    assert config.delay_limit == limit and replace(config, max_delay=7).delay_limit == 7


def test_a_push_that_arrives_twice_counts_once():
    sync = sync_of(shards=3)
    connected(sync, Repeats(InProcess(sync.build_shards())))
    assert torch.equal(learn(sync, range(5)), learn(local_of(), range(5)))
    assert sync.counts == Counter(duplicate=15)


@pytest.mark.parametrize("after", [False, True], ids=["the call", "its answer"])
def test_a_lost_push_is_counted_and_never_repeated(after):
    sync, single = sync_of(shards=2), local_of()
    transport = Unreliable(InProcess(sync.build_shards()), after)
    connected(sync, transport)
    for i in range(6):
        transport.loses = lambda shard, method, i=i: i == 3 and method == "push"
        learn(sync, [i])
        if after or i != 3:
            learn(single, [i])
    assert sync.counts == Counter(accepted=10, lost=2) and torch.equal(sync.flat.data, single.flat.data)


def test_a_lost_pull_is_made_up_for_by_the_next():
    sync = sync_of(shards=2)
    transport = Unreliable(InProcess(sync.build_shards()))
    connected(sync, transport)
    transport.loses = lambda shard, method: shard == 1 and method == "pull"
    learn(sync, [0])
    assert not torch.equal(sync.flat.data, learn(local_of(), [0]))
    transport.loses = lambda shard, method: False
    assert sync.pull_now() and not sync.pull_now()
    assert torch.equal(sync.flat.data, learn(local_of(), [0]))


def test_a_shard_that_is_lost_when_a_learner_begins_is_asked_again():
    sync, lost = sync_of(shards=2), []
    transport = Unreliable(InProcess(sync.build_shards()))
    transport.loses = lambda shard, method: shard == 1 and len(lost) < 3 and not lost.append(method)
    connected(sync, transport)
    assert lost == ["join"] * 3
    lost.clear()
    transport.loses = lambda shard, method: method == "pull" and len(lost) < 3 and not lost.append(method)
    connected(sync, transport)
    assert lost == ["pull"] * 3 and None not in sync._versions
    assert torch.equal(learn(sync, [0]), learn(local_of(), [0]))


def test_a_shard_that_answers_now_and_then_is_not_silent():
    sync, calls = sync_of(timeout_s=0.2), []
    transport = Unreliable(InProcess(sync.build_shards()))
    connected(sync, transport)
    transport.loses = lambda shard, method: not calls.append(shard) and len(calls) % 3 != 0
    began = time.monotonic()
    while time.monotonic() < began + 0.5:
        learn(sync, [0])
        time.sleep(0.02)
    assert sync.counts["lost"] > 3


def test_a_shard_that_stays_silent_ends_the_run():
    sync = sync_of(shards=2, timeout_s=0.2)
    transport = Unreliable(InProcess(sync.build_shards()))
    connected(sync, transport)
    transport.loses = lambda shard, method: shard == 1
    with pytest.raises(RunError, match=r"shard 1 has not answered for 0.2 s: shard 1 is gone"):
        for i in range(10_000_000):
            learn(sync, [i])
    with pytest.raises(RunError, match=r"shard 1 has not answered for 0.2 s"):
        sync.state_dict()
    assert sync.counts["lost"] > 1


def test_a_shard_that_is_restored_starts_a_new_epoch():
    """Learners pull all parameters of a restored shard. Gradients from the lost parameters of a dead shard are
    stale."""
    sync, single = connected(sync_of(shards=3, max_delay=100)), local_of()
    shard = sync.transport._shards[1]
    for i in range(3):
        learn(sync, [i])
        learn(single, [i])
    snapshot, kept = shard.snapshot(), sync.flat.data[sync.parts[1]].clone()
    learn(sync, [3])
    late = compute(sync, 4)
    shard.restore(snapshot)
    late()
    assert sync.counts == Counter(accepted=14, stale=1)
    assert torch.equal(sync.flat.data[sync.parts[1]], kept)
    for i in (3, 4):
        learn(single, [i])
    for part in (sync.parts[0], sync.parts[2]):
        assert torch.equal(sync.flat.data[part], single.flat.data[part])
    learn(sync, [5])
    assert sync.counts == Counter(accepted=17, stale=1)


@pytest.mark.parametrize("in_flight", [0, 1, 2])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_checkpoint_continues_bit_for_bit(optimizer, in_flight):
    settings = {"shards": 3, "in_flight": in_flight, "max_delay": 2, "outlier_deviations": 4.0}
    sync = connected(sync_of(optimizer=optimizer, **settings))
    learn(sync, range(10), loss=1.0)
    sync.flat.grad.fill_(float("nan"))
    sync.step(0.01, torch.zeros(()))
    state = sync.state_dict()
    again = sync_of(optimizer=optimizer, **settings)
    again.load_state_dict(state)
    connected(again)
    assert torch.equal(learn(sync, range(10, 20), loss=1.0), learn(again, range(10, 20), loss=1.0))
    a, b = sync.state_dict(), again.state_dict()
    assert torch.equal(a.pop("parameters"), b.pop("parameters"))
    ours, theirs = a.pop("optimizer"), b.pop("optimizer")
    assert all(torch.equal(torch.as_tensor(ours[n]), torch.as_tensor(theirs[n])) for n in ours)
    assert a == b and a["skipped"] == 1 and [s["updates"] for s in a["shards"]] == [20] * 3


def test_a_learner_that_starts_again_goes_on_with_its_numbers():
    first = connected(sync_of(shards=2))
    learn(first, range(3))
    again = connected(sync_of(shards=2), first.transport)  # the same name
    learn(again, [3])
    assert again.counts == Counter(accepted=2) and again._sequence == 4
    assert torch.equal(again.flat.data, learn(local_of(), range(4)))


def test_another_number_of_shards_is_refused():
    sync = connected(sync_of(shards=3))
    with pytest.raises(ValueError, match="3 shards, the run 2"):
        sync_of(shards=2).load_state_dict(sync.state_dict())
    with pytest.raises(ValueError, match="3 shards, but the parameters are cut into 2"):
        sync_of(shards=2).connect(sync.transport)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_learner_on_a_gpu(simulated_gpu, optimizer):
    """A learner on a GPU sends messages in host memory, and computes the results of a learner on the CPU."""
    flat = FlatParameters(torch.nn.Linear(999, 1).to(GPU))
    flat.data.copy_(flat_of().data)
    settings = ParameterServerConfig(**EXACT, shards=2)
    sync = SavesShards(flat, lambda n: on(GPU, optimizer, n), 0.5, settings)
    transport, sent = InProcess(sync.build_shards()), []
    sync.connect(Spy(transport, sent))
    learn(sync, range(4))
    expected = learn(local_of(optimizer, 0.5), range(4))
    torch.testing.assert_close(sync.flat.data.cpu(), expected, atol=1e-6, rtol=1e-5)
    sync.flat.grad.fill_(float("nan"))
    sync.step(torch.full((), 0.1, device=GPU), torch.zeros((), device=GPU))
    assert (sync.skips.total, sync.counts) == (1, Counter(accepted=8))
    state = sync.state_dict()
    tensors = [state["parameters"], *(x for x in state["optimizer"].values() if isinstance(x, torch.Tensor))]
    tensors += [x.gradient for x in sent if isinstance(x, Push)]
    assert len(tensors) >= 10 and {x.device.type for x in tensors} == {"cpu"}


def on(device, optimizer, n):
    return make_optimizer(optimizer, n, alpha=0.99, epsilon=1e-6 if optimizer == "adagrad" else 1e-5, device=device)


class Spy:
    """A transport that appends the arguments of all calls to the list `sent`."""

    def __init__(self, inner, sent):
        self.inner, self.sent, self.shards = inner, sent, inner.shards

    def call(self, shard, method, *arguments):
        self.sent += arguments
        return self.inner.call(shard, method, *arguments)
