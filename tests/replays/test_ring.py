"""The frame ring returns the same transitions as a plain list of complete transitions."""

import itertools

import numpy as np
import pytest
import torch

from accel_rl.replays.ring import FrameRing, NStep, bytes_per_transition
from tests.marks import slow
from tests.replays.made_up import Simulators, spec

GAMMA = 0.97


def filled(rollouts: int, rows: int, n: int = 1, clip: float = 1.0, device: str = "cpu", **options):
    """Append `rollouts` rollouts to a new ring of `rows` rows. Returns the ring, and the simulators of the rollouts."""
    sims = Simulators(**options)
    ring = FrameRing(sims.spec, sims.B, rows * sims.B, NStep(n, GAMMA, clip), device)
    for _ in range(rollouts):
        ring.append(sims.rollout())
    return ring, sims


def check(ring: FrameRing, sims: Simulators) -> int:
    """Check which cells can be sampled, and compare their transitions with the list of steps. Returns their number."""
    r = ring.returns
    low, high = ring.eligible
    cells = torch.arange(low * ring.B, high * ring.B)
    wanted = [sims.transition(c // ring.B, c % ring.B, r.n, r.gamma, r.reward_clip) for c in cells.tolist()]
    offered = ring.sampleable(cells)
    assert offered.tolist() == [w is not None for w in wanted]
    assert len(ring) == int(offered.sum()) and ring.refused == int((~offered).sum())
    chosen = [w for w in wanted if w is not None]
    if not chosen:
        return 0
    batch = ring.batch(cells[offered])
    obs, action, reward, discount, next_obs = (np.stack(x) for x in zip(*chosen, strict=True))
    np.testing.assert_array_equal(batch.obs_tm1.numpy(), obs)
    np.testing.assert_array_equal(batch.obs_t.numpy(), next_obs)
    np.testing.assert_array_equal(batch.a_tm1.numpy(), action)
    np.testing.assert_allclose(batch.r_t.numpy(), reward, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(batch.discount_t.numpy(), discount, rtol=1e-5)
    assert torch.equal(batch.cell, cells[offered])
    return len(chosen)


CASES = itertools.product((1, 3, 5), (1, 2, 4), (False, True), (0.0, 0.2))
QUICK = [(1, 1, False, 0.0), (1, 1, True, 0.2), (5, 4, False, 0.2), (5, 4, True, 0.0), (3, 2, False, 0.2)]


@pytest.mark.parametrize(("n", "stack", "waits", "dies"), [*QUICK, *(slow(*c) for c in CASES if c not in QUICK)])
def test_every_transition_is_the_one_of_a_plain_list(n, stack, waits, dies):
    checked = 0
    for seed, (B, T, rows) in enumerate([(3, 5, 23), (1, 1, 12), (4, 7, 40), (2, 3, 60)]):
        sims = Simulators(B, T, 100 * n + seed, stack, waits, dies)
        ring = FrameRing(sims.spec, B, rows * B, NStep(n, GAMMA, 1.0))
        for _ in range(2 * rows // T + 3):
            ring.append(sims.rollout())
            checked += check(ring, sims)
    assert checked > 2_000


def test_without_clipping_rewards_are_raw():
    ring, sims = filled(6, 40, n=3, clip=0.0, B=3, T=5, seed=7)
    assert check(ring, sims) and float(ring.batch(torch.tensor([12])).r_t.abs()) >= 0


def test_rows_near_the_cursor_and_the_oldest_are_not_offered():
    ring, _ = filled(10, 20, n=3, B=2, T=5, seed=0)
    low, high = ring.eligible
    assert (low, high) == (50 - 20 + 3, 50 - 3)
    assert not ring.sampleable(torch.tensor([(low - 1) * 2, high * 2, 49 * 2, 10**6])).any()


def test_the_first_rows_are_offered_until_they_are_overwritten():
    ring, _ = filled(3, 20, n=3, B=2, T=5, seed=0)
    assert (ring.oldest, ring.eligible) == (0, (3, 15 - 3))


def test_final_frames_are_kept_however_short_the_episodes_are():
    ring, sims = filled(40, 60, B=4, T=5, seed=3, length=2)
    assert len(ring.finals.frames) > 4 + 240 // 200  # it grew
    assert check(ring, sims)
    used = int((ring.final >= 0).sum())
    assert used + len(ring.finals._free) == len(ring.finals.frames)  # The memory of overwritten final frames was freed.


def test_a_transition_costs_a_frame_and_16_bytes():
    atari = type(spec())("atari", (104, 80), "uint8", 18, 4)
    assert bytes_per_transition(atari) <= 1.02 * (104 * 80 + 16)
    ring = FrameRing(atari, 16, 4096, NStep())
    assert ring.nbytes / 4096 <= bytes_per_transition(atari) + 16 * 104 * 80 / 4096


def test_many_actions_and_long_rollouts():
    s = type(spec())("many", (3, 2), "uint8", 1000, 4)
    assert FrameRing(s, 2, 100, NStep()).action.dtype == torch.int16
    sims = Simulators(2, 30, 0)
    with pytest.raises(ValueError, match="too few for rollouts of 30"):
        FrameRing(sims.spec, 2, 60, NStep()).append(sims.rollout())
    with pytest.raises(ValueError, match="too small"):
        FrameRing(sims.spec, 2, 6, NStep())


@pytest.mark.gpu
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("stack", [1, 4])
def test_host_and_device_rings_are_equal(n, stack):
    host, _ = filled(30, 50, n, B=4, T=5, seed=1, stack=stack, dies=0.1)
    device, _ = filled(30, 50, n, B=4, T=5, seed=1, stack=stack, dies=0.1, device="cuda")
    low, high = host.eligible
    cells = torch.arange(low * 4, high * 4)
    cells = cells[host.sampleable(cells)]
    assert torch.equal(device.sampleable(cells.cuda()).cpu(), host.sampleable(cells))
    ours, theirs = host.batch(cells), device.batch(cells.cuda())
    for name in type(ours).__slots__:
        assert torch.equal(getattr(ours, name), getattr(theirs, name).cpu()), name
