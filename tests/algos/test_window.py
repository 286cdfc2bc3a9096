"""RolloutWindow joins successive short rollouts, and then has the arrays of one long rollout of the same steps."""

import pytest
import torch

from accel_rl.algos.window import RolloutWindow, _without_breaks
from accel_rl.data.rollout import Rollout
from tests.algos.made_up import S, rollout

NAMES = ("action", "reward", "terminated", "truncated", "ended")


def pieces(long: Rollout, T: int):
    """Cut a long rollout into the successive short rollouts that a sampler would have returned."""
    for t in range(0, long.T, T):
        cut = slice(t, t + T)
        yield Rollout(
            frames=long.frames[t : t + S - 1 + T + 1],
            final_frames=long.final_frames[cut],
            age=long.age[t : t + T + 1],
            stack=S,
            recorded={"value": long.recorded["value"][cut]},
            **{name: getattr(long, name)[cut] for name in (*NAMES, "valid")},
        )


def same(got: Rollout, want: Rollout, t0: int, b: slice):
    N = got.T
    t, e = torch.cartesian_prod(torch.arange(N + 1), torch.arange(want.B)[b]).T
    torch.testing.assert_close(got.observation(t, e - b.start), want.observation(t + t0, e))
    for name in NAMES:
        assert torch.equal(getattr(got, name), getattr(want, name)[t0 : t0 + N, b]), name
    assert torch.equal(got.recorded["value"], want.recorded["value"][t0 : t0 + N, b])
    t, e = torch.nonzero(got.truncated, as_tuple=True)
    if len(t):
        torch.testing.assert_close(got.final_observation(t, e), want.final_observation(t + t0, e + b.start))


@pytest.mark.parametrize(("T", "N"), [(1, 4), (2, 4), (3, 3), (1, 1), (5, 10)])
def test_it_shows_the_last_steps_as_one_rollout(T, N):
    long = rollout(T=20)
    long.recorded["value"] = torch.randn(20, long.B)
    window = RolloutWindow(N, T)
    for k, piece in enumerate(pieces(long, T)):
        window.append(piece)
        done = (k + 1) * T
        assert window.ready == (done >= N)
        if window.ready:
            same(window.rollout(slice(1, 4)), long, done - N, slice(1, 4))
    assert len(window._pieces) * T <= N + S - 1 + T


def test_its_state_goes_on_elsewhere():
    long = rollout(T=12)
    long.recorded["value"] = torch.randn(12, long.B)
    one, other = RolloutWindow(4, 2), RolloutWindow(4, 2)
    for k, piece in enumerate(pieces(long, 2)):
        if k == 3:
            other.load_state_dict(one.state_dict())
        one.append(piece)
        if k >= 3:
            other.append(piece)
    same(other.rollout(slice(0, 6)), long, 8, slice(0, 6))


def test_steps_that_lost_their_successor_do_not_count():
    #                         ended here ----v
    valid = torch.tensor([[1, 1, 0, 0, 1, 1, 0, 1]], dtype=torch.bool).T
    ended = torch.tensor([[0, 0, 0, 0, 0, 1, 0, 0]], dtype=torch.bool).T
    assert _without_breaks(valid, ended).int().flatten().tolist() == [0, 0, 0, 0, 1, 1, 0, 1]


def test_a_window_is_made_of_whole_rollouts():
    with pytest.raises(ValueError, match="5 steps"):
        RolloutWindow(5, 2)
