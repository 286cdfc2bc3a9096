"""Observations that are cut out of a rollout's frames equal separately stored observations."""

import numpy as np
import pytest
import torch

from accel_rl.data.rollout import Rollout
from accel_rl.data.rollout_arrays import RolloutArrays, rollout_layout
from accel_rl.data.spec import EnvSpec

T, B = 9, 4


def spec_of(stack: int, shape: tuple[int, ...] = (3, 2)) -> EnvSpec:
    return EnvSpec("x", shape, "uint8" if len(shape) == 2 else "float32", 3, stack)


def make_arrays(spec: EnvSpec, prefix: str = "") -> RolloutArrays:
    arrays = {k: np.zeros(s, d) for k, (d, s) in rollout_layout(spec, T, B, prefix).items()}
    return RolloutArrays.of(arrays, spec.stack, prefix)


class Played:
    """A rollout of episodes with random frames, and the expected observations `obs` and final observations `final`."""

    def __init__(self, spec: EnvSpec, seed: int, ends: float = 0.25):
        rng = np.random.default_rng(seed)
        self.arrays, S = make_arrays(spec), spec.stack
        self.arrays.frames[:] = 255  # White frames (255) mark unwritten memory, which no observation may show.
        self.obs = np.zeros((T + 1, B, S, *spec.frame_shape), spec.frame_dtype)
        self.final: dict[tuple[int, int], np.ndarray] = {}

        def picture():
            return rng.integers(1, 200, spec.frame_shape).astype(spec.frame_dtype)

        def stacked(seen):
            blank = np.zeros(spec.frame_shape, spec.frame_dtype)
            return np.stack([*[blank] * (S - len(seen)), *seen[-S:]])

        for b in range(B):
            # The rollout begins with up to S frames of the previous rollout, in which the first episode may have begun.
            seen = [picture() for _ in range(int(rng.integers(1, 2 * S + 1)))]
            for i, f in enumerate(reversed(seen[-S:])):
                self.arrays.frames[S - 1 - i, b] = f
            head = self.arrays.initial(slice(b, b + 1), spec)
            head.frame[0], head.age[0] = seen[-1], min(len(seen), S) - 1
            self.obs[0, b] = stacked(seen)
            for t in range(T):
                step = self.arrays.step(t, slice(b, b + 1))
                seen.append(picture())
                if rng.random() < ends:
                    step.final_frame[0], step.ended[0] = seen[-1], True
                    self.final[t, b] = stacked(seen)
                    seen = [picture()]
                step.frame[0], step.age[0] = seen[-1], min(len(seen), S) - 1
                step.reward[0], step.valid[0] = t + 10 * b, True
                self.obs[t + 1, b] = stacked(seen)
        if S == 1:  # without a stack axis
            self.obs, self.final = self.obs[:, :, 0], {k: v[0] for k, v in self.final.items()}


@pytest.fixture(params=[1, 2, 4], ids="stack {}".format)
def played(request):
    return Played(spec_of(request.param), seed=request.param)


def test_observation_of_every_cell(played):
    rollout = Rollout.over(played.arrays)
    t, b = (x.flatten() for x in torch.meshgrid(torch.arange(T + 1), torch.arange(B), indexing="ij"))
    order = torch.randperm(len(t), generator=torch.Generator().manual_seed(0))
    got = rollout.observation(t[order], b[order]).numpy()
    assert (got == played.obs[t[order], b[order]]).all()


@pytest.mark.parametrize(
    ("t", "n", "b"),
    [(0, 1, slice(None)), (0, T + 1, slice(None)), (3, 4, slice(1, 3)), (T, 1, slice(0, B)), (T - 1, 2, slice(2, 3))],
)
def test_observations_of_neighbours(played, t, n, b):
    before = played.arrays.frames.copy()
    got = Rollout.over(played.arrays).observations(t, n, b)
    want = played.obs[t : t + n, b]
    assert got.shape == (want.shape[0] * want.shape[1], *want.shape[2:])
    assert (got.numpy() == want.reshape(got.shape)).all()
    assert (played.arrays.frames == before).all()  # `observations` did not change the rollout's frames.


def test_final_observation_of_every_end(played):
    """The final observation has the last frames of the episode that ended, although row t + 1 has the next episode's
    frames."""
    rollout = Rollout.over(played.arrays)
    assert len(played.final) > 3
    t, b = rollout.ended.nonzero(as_tuple=True)
    assert set(zip(t.tolist(), b.tolist(), strict=True)) == set(played.final)
    before = played.arrays.frames.copy()
    got = rollout.final_observation(t, b).numpy()
    for i, cell in enumerate(zip(t.tolist(), b.tolist(), strict=True)):
        assert (got[i] == played.final[cell]).all(), cell
    assert not any((g == o).all() for g, o in zip(got, played.obs[t + 1, b], strict=True))
    assert (played.arrays.frames == before).all()
    nowhere = torch.zeros(0, dtype=torch.int64)
    assert rollout.final_observation(nowhere, nowhere).shape == (0, *got.shape[1:])


def test_vectors_have_no_axis_for_the_stack():
    played = Played(spec_of(1, (5,)), seed=3)
    rollout = Rollout.over(played.arrays)
    assert rollout.observations(2, 3).shape == (3 * B, 5)
    assert (rollout.observations(2, 3).numpy() == played.obs[2:5].reshape(-1, 5)).all()
    t, b = rollout.ended.nonzero(as_tuple=True)
    want = np.stack([played.final[c] for c in zip(t.tolist(), b.tolist(), strict=True)])
    assert (rollout.final_observation(t, b).numpy() == want).all()


def test_the_rollout_is_the_same_memory(played):
    rollout = Rollout.over(played.arrays)
    assert (rollout.T, rollout.B, rollout.stack) == (T, B, played.arrays.stack)
    for name in ("frames", "final_frames", "age", "action", "reward", "terminated", "truncated", "ended", "valid"):
        tensor, array = getattr(rollout, name), getattr(played.arrays, name)
        assert tensor.data_ptr() == array.ctypes.data and tuple(tensor.shape) == array.shape, name
    rollout.action[2, 3] = 5
    assert played.arrays.action[2, 3] == 5
    assert rollout.recorded == {} and rollout.recorded is not Rollout.over(played.arrays).recorded
