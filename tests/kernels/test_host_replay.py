"""The compiled kernels draw the same batches from a replay in host memory as plain torch operations, bit for bit."""

import itertools

import pytest
import torch

from accel_rl.kernels import native
from accel_rl.kernels.replay_gather import host_ring, host_tree
from accel_rl.kernels.ring_arrays import RingArrays, gather
from accel_rl.machine.devices import Device
from accel_rl.replays.prioritized import Prioritized, SumTree
from accel_rl.replays.replay import Replay
from accel_rl.replays.ring import FrameRing, NStep
from accel_rl.replays.uniform import Uniform
from tests.replays.made_up import Simulators, spec

pytestmark = pytest.mark.skipif(native.compiled() is None, reason="the kernels are not compiled")


def replay_of(sims: Simulators, kind: str, n: int, n_actions: int, rows: int) -> Replay:
    ring = FrameRing(spec(sims.spec.stack, n_actions), sims.B, rows * sims.B, NStep(n, 0.97, 1.0))
    if kind.startswith("prioritized"):
        return Replay(ring, Prioritized(ring, 3, 0.7 if "0.7" in kind else 0.5, 0.4))
    return Replay(ring, Uniform(ring, 3, kind == "uniform"))


def same_batches(a, b) -> None:
    for name in type(a).__slots__:
        x, y = getattr(a, name), getattr(b, name)
        assert x.dtype == y.dtype and x.shape == y.shape and torch.equal(x, y), name


def same_trees(compiled: Replay, plain: Replay) -> None:
    a, b = compiled.selection, plain.selection
    assert torch.equal(a.highest, b.highest)
    assert all(torch.equal(x, y) for x, y in zip(a.tree.levels, b.tree.levels, strict=True))


RINGS = [
    # Rings (B, T, rows, n, stack, waits, dies, n_actions) into which more rollouts are written than they can hold.
    (1, 7, 60, 1, 4, False, 0.0, 6),
    (3, 5, 40, 3, 4, False, 0.2, 300),
    (3, 5, 40, 1, 1, True, 0.2, 6),
    (4, 7, 40, 5, 4, True, 0.0, 6),
    (64, 3, 30, 2, 4, False, 0.05, 300),
    (5, 4, 40, 4, 1, False, 0.0, 300),
    (16, 6, 70, 3, 4, False, 0.1, 6),
]  # fmt: skip


# Pairs of a ring and a kind of draws. Half of the pairs are slow tests.
PAIRS = [
    pytest.param(ring, kind, marks=() if (i + j) % 2 else pytest.mark.slow)
    for i, ring in enumerate(RINGS)
    for j, kind in enumerate(("uniform", "without replacement", "prioritized, alpha 0.7", "prioritized"))
]


@pytest.mark.parametrize(("ring", "kind"), PAIRS)
def test_draws_and_priorities_equal_those_of_plain_operations(ring, kind):
    B, T, rows, n, stack, waits, dies, n_actions = ring
    sims = Simulators(B, T, 7, stack, waits, dies)
    compiled, plain = (replay_of(sims, kind, n, n_actions, rows) for _ in range(2))
    assert compiled.ring.compiled is not None
    generator = torch.Generator().manual_seed(1)
    for step in range(5 * rows // (2 * T)):
        rollout = sims.rollout()
        rollout.action += 290 * (n_actions > 256)
        compiled.append(rollout)
        with native.left_out():
            assert plain.ring.compiled is None
            plain.append(rollout)
        if not len(plain):
            continue
        for N in (1, 2, 32) if step % 6 else (512, 2048):
            batch = compiled.sample(N)
            with native.left_out():
                want = plain.sample(N)
            same_batches(batch, want)
            # A few errors are NaN in a third of the batches. All errors are infinite in a seventh of the batches.
            error = torch.randn(len(batch.cell), generator=generator)
            # A cell that was drawn twice has the same error both times.
            error = error[torch.unique(batch.cell, return_inverse=True)[1]]
            if step % 3 == 0:
                error[torch.randn(error.shape, generator=generator) > 1.5] = float("nan")
            if step % 7 == 0:
                error[:] = float("inf")
            compiled.update(batch, error)
            with native.left_out():
                plain.update(want, error)
            if not compiled.selection.has_priorities:
                continue
            # New priorities are also set for cells that were overwritten or cannot be drawn.
            others = compiled.ring.inside[0] - B * rows // 2 + torch.arange(B * rows - 1)
            error = torch.rand(len(others), generator=generator) + 1
            compiled.selection.update(others, error)
            with native.left_out():
                plain.selection.update(others, error)
            same_trees(compiled, plain)
    assert sims.B > 1 or compiled.ring.cursor > 2 * rows


def test_all_cells_that_can_be_drawn_are_gathered_alike():
    """The compiled kernels gather the same transitions as torch for all cells of several rings, including time limits
    and unclipped rewards."""
    for n, stack, clip in itertools.product((1, 2, 5), (1, 4), (0.0, 1.0)):
        sims = Simulators(3, 5, n, stack, length=4)
        ring = FrameRing(sims.spec, 3, 180, NStep(n, 0.97, clip))
        for _ in range(30):
            ring.append(sims.rollout())
        cells = ring.nth(torch.arange(len(ring)))
        assert (ring.final[ring.position_of(cells)] >= 0).any()
        found = ring.compiled.gather(ring.finals.frames, cells, 2)
        for x, y in zip(found, gather(ring._arrays(), cells, may_overlap=True), strict=True):
            assert torch.equal(x, y) and x.stride() == y.stride()


def test_batches_stay_valid_after_their_replay():
    sims = Simulators(3, 5, 0)
    replay = replay_of(sims, "uniform", 1, 6, 40)
    for _ in range(8):
        replay.append(sims.rollout())
    batch = replay.sample(64)
    kept, obs_t = batch.obs_t.clone(), batch.obs_t
    del replay, batch
    others = [torch.full((64, 5, 3, 2), 9, dtype=torch.uint8) for _ in range(50)]
    assert torch.equal(obs_t, kept) and others
    obs_t.zero_()  # Batches are ordinary tensors.


@pytest.mark.parametrize("fault", [1e-3, -1e-3])
def test_a_changed_sum_is_found(fault):
    """same_trees finds a slightly wrong sum in a sum tree."""
    sims = Simulators(3, 5, 0)
    a, b = (replay_of(sims, "prioritized", 1, 6, 40) for _ in range(2))
    rollout = sims.rollout()
    a.append(rollout), b.append(rollout)
    a.selection.tree.levels[1][0] += fault
    with pytest.raises(AssertionError):
        same_trees(a, b)


def arrays(**changes) -> RingArrays:
    size = 12
    fields = {
        "frames": torch.zeros(size, 3, 2, dtype=torch.uint8), "finals": torch.zeros(2, 3, 2, dtype=torch.uint8),
        "age": torch.zeros(size, dtype=torch.uint8), "action": torch.zeros(size, dtype=torch.uint8),
        "reward": torch.zeros(size), "flags": torch.zeros(size, dtype=torch.uint8),
        "final": torch.full((size,), -1, dtype=torch.int32), "B": 3, "stack": 4, "n": 1, "gamma": 0.9,
        "reward_clip": 1.0,
    }  # fmt: skip
    return RingArrays(**(fields | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"age": torch.zeros(11, dtype=torch.uint8)},
        {"reward": torch.zeros(12, dtype=torch.float64)},
        {"final": torch.zeros(12, dtype=torch.int64)},
        {"flags": torch.zeros(24, dtype=torch.uint8)[::2]},
        {"action": torch.zeros(12, dtype=torch.int64)},
        {"frames": torch.zeros(12, 2, 3, dtype=torch.uint8).transpose(1, 2)},
        {"frames": torch.zeros(11, 3, 2, dtype=torch.uint8)},
        {"B": 5},
        {"stack": 0},
        {"n": 0},
    ],
)
def test_arrays_that_do_not_fit_are_refused(changes):
    host_ring(arrays())
    with pytest.raises(ValueError, match="the replay"):
        host_ring(arrays(**changes))


def test_inputs_that_do_not_fit_are_refused():
    ring = arrays()
    host, cell = host_ring(ring), torch.zeros(4, dtype=torch.int64)
    for finals, cells in [
        (ring.finals, cell.int()),
        (ring.finals, torch.zeros(8, dtype=torch.int64)[::2]),
        (ring.finals, cell.view(2, 2)),
        (ring.finals[:, :2], cell),
        (torch.zeros(2, 5, 2, dtype=torch.uint8), cell),
    ]:
        with pytest.raises(ValueError, match="the replay"):
            host.gather(finals, cells, 1)
    tree, highest, no = SumTree(12).compiled, torch.ones(()), torch.zeros(3)
    for weight in (no, no.double(), torch.zeros(8)[::2]):
        with pytest.raises(ValueError, match="the replay"):
            tree.update(cell, weight, host, 0, 12, highest)
    with pytest.raises(ValueError, match="the replay"):  # larger than the tree
        big = FrameRing(spec(), 3, 120, NStep())
        tree.update(cell, torch.zeros(4), big.compiled, 0, 12, highest)
    with pytest.raises(ValueError, match="the replay"):
        tree.draw(torch.zeros(4), host, 11)
    for lengths in [(33,), (64,), (2048, 32), (0,), (64, 64)]:
        levels = [torch.zeros(n, dtype=torch.float64 if k else torch.float32) for k, n in enumerate(lengths)]
        with pytest.raises(ValueError, match="the replay"):
            host_tree(levels, 32)


def test_damaged_values_never_lead_outside_the_arrays():
    """The kernels make no accesses outside their arrays if all numbers in a ring are random, as in a damaged file."""
    g = torch.Generator().manual_seed(0)
    ring = arrays(
        age=torch.randint(0, 256, (12,), generator=g).byte(), flags=torch.randint(0, 256, (12,), generator=g).byte(),
        n=3, reward=torch.full((12,), float("nan")),
    )  # fmt: skip
    host = host_ring(ring)
    cell = torch.randint(-(2**62), 2**62, (64,), generator=g)
    assert all(len(x) == 64 for x in host.gather(ring.finals, cell, 1))
    before = torch.randint(-50, 50, (5,), generator=g)
    assert len(host.nth(torch.rand(64, dtype=torch.float64, generator=g), 12, 0, before)[0]) == 64
    ring.final.fill_(2)
    with pytest.raises(IndexError, match="slot"):
        host.gather(ring.finals, cell, 1)
    for value in (0.0, float("nan"), float("inf"), -1.0, 1.0):
        tree = SumTree(3000)
        for level in tree.levels:
            level.fill_(value)
        cells, _ = tree.compiled.draw(torch.rand(64, dtype=torch.float64, generator=g), host, 11)
        assert ((cells >= 0) & (cells < 12)).all()
        tree.compiled.update(cell, torch.rand(64, generator=g), host, -(2**62), 2**62, torch.ones(()))


def test_a_mass_that_rounds_past_the_end_is_the_last_cell_with_a_weight():
    ring = FrameRing(spec(), 2, 100, NStep())
    tree = SumTree(100)
    tree.set(torch.tensor([3, 60]), torch.tensor([0.1, 0.2]))
    one = torch.ones(1, dtype=torch.float64)
    assert tree.find(one * tree.total).tolist() == tree.compiled.draw(one, ring.compiled, 99)[0].tolist() == [60]


def test_without_the_extension_torch_draws(monkeypatch):
    monkeypatch.setattr(native, "compiled", lambda: None)
    sims = Simulators(3, 5, 0)
    replay = replay_of(sims, "prioritized", 1, 6, 40)
    assert replay.ring.compiled is None and replay.selection.tree.compiled is None
    for _ in range(4):
        replay.append(sims.rollout())
    batch = replay.sample(8)
    replay.update(batch, torch.ones(8))
    assert batch.obs_t.shape == (8, 4, 3, 2)


def test_other_devices_and_fan_outs_have_no_compiled_tree():
    assert SumTree(100, "meta").compiled is None and SumTree(100, fanout=1024).compiled is None
    assert not Device("cpu").queues_work
