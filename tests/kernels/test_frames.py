import pytest
import torch

from accel_rl.kernels import native
from accel_rl.kernels.frames import gather_stacks, window_stacks


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("stack", [1, 2, 4])
def test_stacks_equal_a_plain_list_of_frames(stack, compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr(native, "compiled", lambda: None)
    g = torch.Generator().manual_seed(stack)
    T, B = 9, 3
    frames = torch.randint(1, 256, (stack - 1 + T + 1, B, 5, 6), dtype=torch.uint8, generator=g)
    # `first` is true at steps at which an episode begins.
    first = torch.rand(T + 1, B, generator=g) < 0.3
    age = torch.zeros(T + 1, B, dtype=torch.uint8)
    want = torch.zeros(T + 1, B, stack, 5, 6, dtype=torch.uint8)
    for b in range(B):
        seen = []
        for t in range(T + 1):
            if first[t, b] or t == 0:
                seen = []
            seen.append(frames[stack - 1 + t, b])
            age[t, b] = min(len(seen) - 1, stack - 1)
            for i, frame in enumerate(reversed(seen[-stack:])):
                want[t, b, stack - 1 - i] = frame
    t, b = torch.meshgrid(torch.arange(T + 1), torch.arange(B), indexing="ij")
    t, b = t.reshape(-1), b.reshape(-1)
    got = gather_stacks(frames, t, b, age[t, b], stack)
    flat = want.reshape(-1, stack, 5, 6)
    assert torch.equal(got, flat[:, 0] if stack == 1 else flat)
    for start, steps, envs in ((0, T + 1, slice(None)), (2, 3, slice(1, 3)), (T, 1, slice(0, 1))):
        part = want[start : start + steps, envs].reshape(-1, stack, 5, 6)
        window = window_stacks(frames, age, start, steps, envs, stack).gather()
        assert torch.equal(window, part[:, 0] if stack == 1 else part)


def test_frames_of_floats_and_of_some_environments():
    frames = torch.randn(8, 6, 3)[:, 1:4]  # not in one piece
    t, b = torch.tensor([0, 4, 2]), torch.tensor([2, 0, 1])
    got = gather_stacks(frames, t, b, torch.tensor([3, 0, 1], dtype=torch.uint8), 4)
    assert torch.equal(got[0], frames[0:4, 2])
    assert torch.equal(got[1, 3], frames[7, 0]) and not got[1, :3].any()
    assert torch.equal(got[2, 2:], frames[4:6, 1]) and not got[2, :2].any()
