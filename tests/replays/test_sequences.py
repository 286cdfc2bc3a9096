"""Sequences from the ring of recurrent replay equal parts of whole episodes in lists of steps."""

from collections import Counter

import numpy as np
import pytest
import torch

from accel_rl.replays.prioritized import Prioritized
from accel_rl.replays.replay import Replay
from accel_rl.replays.ring import NStep
from accel_rl.replays.sequences import SequenceRing, SequenceShape
from accel_rl.replays.uniform import Uniform
from tests.replays.made_up import Simulators

B, T, N_STEP, Z = 3, 4, 3, 6
SHAPE = SequenceShape(burn_in=5, length=7, period=8, state_size=Z)
ROWS = 64
CASES = [
    {"stack": 4},
    {"stack": 1},
    {"stack": 4, "waits": True},
    {"stack": 4, "dies": 0.05},
    {"stack": 1, "waits": True, "dies": 0.05, "length": 4},
]


def ring_of(sims, size=ROWS * B):
    return SequenceRing(sims.spec, B, size, NStep(N_STEP, 0.97), "cpu", SHAPE)


def rollouts(sims, n):
    """Yield n pairs (number, rollout). The rollout's recurrent states depend on the time step and the environment."""
    for k in range(n):
        r = sims.rollout()
        r.state = torch.arange(Z) + 100.0 * torch.arange(B)[:, None] + 1e4 * (len(sims.steps[0]) - T)
        yield k, r


def check(ring, sims, cell):
    """Compare the sequences `cell` [N] of the ring with the simulators' steps. Returns the number of truncations."""
    batch = ring.batch(cell, torch.ones(len(cell)))
    cuts = {(int(batch.cut_t[c, n]), n): batch.cut_obs[c, n] for c, n in batch.cut.nonzero().tolist()}
    assert batch.cut.shape == (ring.most_cuts, len(cell))
    expected_cuts = set()
    obs = batch.observations(0, ring.rows).view(ring.rows, len(cell), *ring.steps.spec.obs_shape)
    for n, (k, b) in enumerate(divmod(int(c), B) for c in cell):
        start = k * SHAPE.period
        assert batch.state[n].tolist() == [z + 100.0 * b + 1e4 * start for z in range(Z)]
        for i in range(ring.rows):
            step = sims.steps[b][start + i] if start + i < len(sims.steps[b]) else None
            in_training = SHAPE.burn_in <= i < SHAPE.burn_in + SHAPE.length
            if in_training:
                known = sims.transition(start + i, b, N_STEP, 0.97, 0.0) is not None
                assert bool(batch.mask[i - SHAPE.burn_in, n]) == known
            if step is None or not step.valid:
                continue
            np.testing.assert_array_equal(obs[i, n].numpy(), step.obs)
            assert (int(batch.action[i, n]), float(batch.reward[i, n])) == (step.action, step.reward)
            assert (bool(batch.terminated[i, n]), bool(batch.ended[i, n])) == (step.terminated, step.ended)
            last = batch.last()[i, n].tolist()
            before = sims.steps[b][start + i - 1] if i else None
            if before is not None and before.valid and batch.age[i, n] > 0:
                assert last == [float(before.action), before.reward]
            if step.ended and not step.terminated and SHAPE.burn_in <= i < ring.rows - 1:
                expected_cuts.add((i, n))
                np.testing.assert_array_equal(cuts[i, n].numpy(), step.next_obs)
    assert set(cuts) == expected_cuts
    most = max(Counter(n for _, n in expected_cuts).values(), default=0)
    assert ring.most_cuts == most or len(cell) < len(ring)
    return len(expected_cuts)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("seed", [0, 1])
def test_sequences_are_those_of_the_episodes(case, seed):
    """Episodes end by termination, time limits or lost worker processes. All rows of the replay's ring are
    overwritten twice."""
    sims = Simulators(B, T, seed, **case)
    ring, seen, cuts = ring_of(sims), set(), 0
    for k, r in rollouts(sims, 3 * ROWS // T):
        ring.append(r)
        low, high = ring.eligible
        if len(ring) and k % 7 == 0:
            assert ring.steps.oldest <= max(0, low * SHAPE.period - sims.spec.stack + 1)
            assert high * SHAPE.period - SHAPE.period + ring.rows <= ring.steps.cursor
            cells = torch.arange(low * B, high * B)
            cuts += check(ring, sims, cells)
            seen |= set(cells.tolist())
    assert seen == set(range(max(seen) + 1)), "a sequence was never drawn"
    assert cuts > 5 or case.get("waits")


def test_no_frame_is_stored_twice():
    sims = Simulators(B, T, 0)
    assert len(ring_of(sims).frames) == ROWS * B


@pytest.mark.parametrize("prioritized", [False, True])
def test_every_complete_sequence_is_drawn_in_proportion_to_its_priority(prioritized):
    sims = Simulators(B, T, 0)
    ring = ring_of(sims)
    selection = Prioritized(ring, 0, 1.0, 0.6, 0.6) if prioritized else Uniform(ring, 0)
    replay = Replay(ring, selection)
    for _, r in rollouts(sims, 40):
        replay.append(r)
    low, high = ring.eligible
    cells = torch.arange(low * B, high * B)
    batch = ring.batch(cells, torch.ones(len(cells)))
    error = torch.linspace(1, 2, len(cells))
    replay.update(batch, error)
    drawn = torch.cat([replay.sample(64).cell for _ in range(500)]) - low * B
    share = torch.bincount(drawn, minlength=len(cells)) / len(drawn)
    expected = error / error.sum() if prioritized else torch.full_like(error, 1 / len(cells))
    assert (share - expected).abs().max() < 0.004
    weight = replay.sample(64)
    p = expected[weight.cell - low * B]
    torch.testing.assert_close(weight.weight, (p / p.min()) ** (-0.6 if prioritized else 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("appended", [10, 50])
def test_a_restored_replay_draws_the_same_sequences(appended, monkeypatch):
    sims = Simulators(B, T, 3)
    monkeypatch.setattr("accel_rl.replays.replay.SEGMENT_BYTES", 600)
    first, second = (Replay(r, Prioritized(r, 0, 0.9, 0.6)) for r in (ring_of(sims), ring_of(sims)))
    for _, r in rollouts(sims, appended):
        first.append(r)
    second.load_state_dict(first.state_dict())
    for _ in range(5):
        a, b = first.sample(8), second.sample(8)
        for name in a.__slots__:
            x, y = getattr(a, name), getattr(b, name)
            assert torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y, name
        error = torch.rand(8)
        first.update(a, error)
        second.update(b, error)
        _, r = next(rollouts(sims, 1))
        first.append(r)
        second.append(r)


def test_a_state_that_no_rollout_begins_with_is_an_error():
    sims = Simulators(B, T, 0)
    ring = ring_of(sims)
    with pytest.raises(ValueError, match="8-th step"):
        ring.append(sims.rollout())
