"""Replays on a simulated GPU equal those on the host, never make the host wait, and can be captured in a CUDA graph."""

import itertools

import pytest
import torch

from accel_rl.data.rollout import Rollout
from accel_rl.kernels.ring_arrays import gather
from accel_rl.machine.devices import runtime
from accel_rl.replays.prioritized import GPU_FANOUT, Prioritized, SumTree
from accel_rl.replays.replay import Replay
from accel_rl.replays.ring import FrameRing, NStep
from accel_rl.replays.uniform import Uniform
from tests.marks import slow
from tests.replays.made_up import Simulators
from tests.simulated_device import counting

B, T, N = 4, 5, 16
KINDS = ("uniform", "without replacement", "prioritized")
FIELDS = ("frames", "final_frames", "age", "action", "reward", "terminated", "truncated", "ended", "valid")


@pytest.fixture
def gpu(simulated_gpu) -> str:
    return "sim:0"


def empty(sims: Simulators, kind: str, device: str, n: int = 3, rows: int = 40) -> Replay:
    ring = FrameRing(sims.spec, B, rows * B, NStep(n, 0.97), device)
    if kind != "prioritized":
        return Replay(ring, Uniform(ring, 3, kind == "uniform"))
    prioritized = Prioritized(ring, 3, 0.6, 0.4)
    prioritized.tree = SumTree(ring.L * B, device, GPU_FANOUT)  # Sum trees of equal fanout have equal rounding errors.
    return Replay(ring, prioritized)


def mirrored(rollout: Rollout, device: str) -> Rollout:
    """Copy a rollout to the device. The copy's attribute `host` is the original, as in rollouts of a sampler."""
    arrays = {name: getattr(rollout, name).to(device) for name in FIELDS}
    return Rollout(**arrays, stack=rollout.stack, host=rollout)


def rollouts(sims: Simulators, n: int, device: str) -> list[Rollout]:
    return [mirrored(sims.rollout(), device) for _ in range(n)]


def same(host, there) -> None:
    for name in type(host).__slots__:
        a, b = getattr(host, name), getattr(there, name)
        assert b.device.type == "sim" and torch.equal(a, b.cpu()), name


RINGS = [
    (1, 1, False),
    (3, 4, False),
    (1, 4, True),
    (3, 1, True),
]  # RINGS has each pair of values of two parameters once.
OTHER_RINGS = [case for case in itertools.product((1, 3), (1, 4), (False, True)) if case not in RINGS]


@pytest.mark.parametrize(("n", "stack", "from_host"), [*RINGS, *(slow(*case) for case in OTHER_RINGS)])
def test_the_ring_equals_one_on_the_host(gpu, n, stack, from_host):
    sims = Simulators(B, T, 0, stack, dies=0.1, length=6)
    host, there = empty(sims, "uniform", "cpu", n), empty(sims, "uniform", gpu, n)
    for _ in range(18):  # twice around the ring
        rollout = sims.rollout()
        host.append(rollout)
        there.append(rollout if from_host else mirrored(rollout, gpu))
        low, high = host.ring.eligible
        cells = torch.arange(low * B, high * B)
        assert torch.equal(host.ring.sampleable(cells), there.ring.sampleable(cells.to(gpu)).cpu())
        cells = cells[host.ring.sampleable(cells)]
        same(host.ring.batch(cells), there.ring.batch(cells.to(gpu)))
    assert len(there.ring.finals.frames) == len(host.ring.finals.frames)


@pytest.mark.parametrize(
    ("kind", "dies"), [(kind, 0.2) for kind in KINDS[::2]] + [slow(kind, 0.0) for kind in KINDS[::2]]
)
def test_draws_and_priorities_equal_those_on_the_host(gpu, kind, dies):
    sims = Simulators(B, T, 1, dies=dies)
    host, there = empty(sims, kind, "cpu"), empty(sims, kind, gpu)
    for i in range(25):
        rollout = sims.rollout()
        host.append(rollout)
        there.append(mirrored(rollout, gpu))
        for replay in (host, there):
            replay.anneal(i / 25)
        if len(host):
            a, b = host.sample(N), there.sample(N)
            same(a, b)
            host.update(a, a.r_t + 0.3)
            there.update(b, b.r_t + 0.3)


# A rollout that is on the host (from_host) is appended by the same code for all kinds of draws, so one kind is tested.
WAITS = [*((kind, 0.2, False) for kind in KINDS), ("uniform", 0.2, True)]
OTHER_WAITS = [case for case in itertools.product(KINDS, (0.0, 0.2), (False, True)) if case not in WAITS]


@pytest.mark.parametrize(("kind", "dies", "from_host"), [*WAITS, *(slow(*case) for case in OTHER_WAITS)])
def test_nothing_waits(gpu, kind, dies, from_host):
    sims = Simulators(B, T, 2, dies=dies, length=6)
    replay = empty(sims, kind, gpu)
    for rollout in [sims.rollout() for _ in range(12)] if from_host else rollouts(sims, 12, gpu):
        with counting() as waits:
            replay.append(rollout)
            replay.anneal(0.5)
            if len(replay) >= N:
                batch = replay.sample(N)
                replay.update(batch, batch.r_t)
        assert not waits


def test_plain_operations_wait_for_nothing_either(gpu):
    """A GPU without Triton gathers batches by plain torch operations."""
    for stack, n in ((1, 3), (4, 1)):
        sims = Simulators(B, T, 0, stack, length=6)
        replay = empty(sims, "uniform", gpu, n)
        for rollout in rollouts(sims, 6, gpu):
            replay.append(rollout)
        cell, _ = replay.selection.draw(N)
        with counting() as waits:
            found = gather(replay.ring._arrays(), cell)
        assert not waits
        batch = replay.ring.batch(cell)
        for x, y in zip(found, (batch.obs_tm1, batch.obs_t, batch.r_t, batch.discount_t, batch.a_tm1), strict=True):
            assert torch.equal(x.cpu(), y.cpu())


class Captured:
    """A CUDA graph of a replay's calls `sample` and `update`, which is captured again when the replay's key has
    changed."""

    def __init__(self, replay: Replay):
        self.replay, self.key, self.captures = replay, None, 0

    def step(self):
        if self.key != self.replay.key:
            self._capture()
        self.graph.replay()
        return self.batch

    def _capture(self):
        module = runtime(self.replay.device)
        self.graph, side = module.CUDAGraph(), module.Stream()
        self.graph.register_generator_state(self.replay.generator)
        side.wait_stream(module.current_stream())
        with module.graph(self.graph, stream=side, capture_error_mode="thread_local"):
            self.batch = self.replay.sample(N)
            self.replay.update(self.batch, self.batch.r_t + 0.3)
        module.current_stream().wait_stream(side)
        self.key, self.captures = self.replay.key, self.captures + 1


def captured_cases():
    """Return test cases (kind of draws, probability that a worker process is lost, which makes cells unsampleable)."""
    quick = [("prioritized", 0.0), ("prioritized", 0.01), ("uniform", 0.01)]
    quick.append(("without replacement", 0.01))
    cases = list(itertools.product(KINDS, (0.0, 0.01, 0.05)))
    return [case if case in quick else slow(*case) for case in cases]


@pytest.mark.parametrize(("kind", "dies"), captured_cases())
def test_captured_samples_and_updates_equal_eager_ones(gpu, kind, dies):
    sims = Simulators(B, T, 3, dies=dies, length=12 if dies else 40)
    eager, captured = empty(sims, kind, gpu), empty(sims, kind, gpu)
    for rollout in rollouts(sims, 4, gpu):  # half of the ring
        eager.append(rollout)
        captured.append(rollout)
    for replay in (eager, captured):
        replay.sample(N)  # a warm-up
    assert captured.is_capturable
    graph, changes, refused = Captured(captured), 0, []
    for i, rollout in enumerate(rollouts(sims, 12, gpu)):
        refused.append(eager.ring.refused > 0)
        for _ in range(2):
            a, b = eager.sample(N), graph.step()
            for name in type(a).__slots__:
                assert torch.equal(getattr(a, name).cpu(), getattr(b, name).cpu()), name
            eager.update(a, a.r_t + 0.3)
        before = eager.key
        for replay in (eager, captured):
            replay.append(rollout)
            replay.anneal(i / 20)
        changes += before != eager.key
    assert graph.captures <= 1 + changes
    assert set(refused) == {0.0: {False}, 0.01: {False, True}}.get(dies, set(refused))
    if kind == "prioritized":
        assert torch.equal(eager.selection.highest.cpu(), captured.selection.highest.cpu())
        for a, b in zip(eager.selection.tree.levels, captured.selection.tree.levels, strict=True):
            assert torch.equal(a.cpu(), b.cpu())


class TwoRanks:
    """The communicator of one of two ranks. All numbers that the other rank sends are 2."""

    size = 2

    def all_reduce_max(self, x: torch.Tensor) -> torch.Tensor:
        return x.clamp_(min=2)


def test_two_ranks_wait_for_nothing_and_can_be_captured(gpu):
    sims = Simulators(B, T, 0)
    replay = empty(sims, "prioritized", gpu)
    replay.join(TwoRanks())
    highest = replay.selection.highest
    for rollout in rollouts(sims, 6, gpu):
        with counting() as waits:
            replay.append(rollout)
        assert not waits
    assert replay.selection.highest is highest and float(highest) == 2
    weight = Captured(replay).step().weight
    assert (weight <= 1).all()


def test_fewer_transitions_than_a_batch_without_replacement(gpu):
    sims = Simulators(B, T, 0, dies=0.2)
    replay = empty(sims, "without replacement", gpu)
    for rollout in rollouts(sims, 3, gpu):
        replay.append(rollout)
        if len(replay):
            batch = replay.sample(50)
            assert len(batch.weight) == len(batch.cell.cpu().unique()) == min(50, len(replay))


@pytest.mark.parametrize("kind", ["uniform", "prioritized"])
def test_a_checkpoint_goes_from_device_to_device(gpu, kind):
    sims = Simulators(B, T, 4, dies=0.1)
    replay = empty(sims, kind, "cpu")
    for _ in range(20):
        replay.append(sims.rollout())
    for device in (gpu, "cpu"):
        other = empty(sims, kind, device)
        other.load_state_dict(replay.state_dict())
        replay = other
    rollout = sims.rollout()
    there = empty(sims, kind, gpu)
    there.load_state_dict(replay.state_dict())
    for each in (replay, there):
        each.append(rollout)
    cell = replay.sample(N).cell  # drawn once: a GPU and a CPU would draw different cells
    same(replay.ring.batch(cell), there.ring.batch(cell.to(gpu)))
    if kind == "prioritized":
        trees = (each.selection.tree.levels for each in (replay, there))
        assert all(torch.equal(a, b.cpu()) for a, b in zip(*trees, strict=True))
    assert there.sample(N).cell.device.type == "sim"
