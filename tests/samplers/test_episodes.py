"""EpisodeTracker finds the same episodes and scores in rollouts as a loop over all steps and environments."""

import math
from dataclasses import replace

import numpy as np
import pytest

from accel_rl.checkpoints.state_tree import decode, encode
from accel_rl.data.rollout_arrays import RolloutArrays, rollout_layout
from accel_rl.data.spec import EnvSpec
from accel_rl.envs.episode_info import INFO_BYTES, LEFT_OUT, SCORE, packed
from accel_rl.samplers.episodes import Episode, EpisodeTracker, episode_metrics
from accel_rl.text import notes

SPEC = EnvSpec("x", (1,), "float32", 2)
T, B = 7, 5


def random_rollouts(seed: int, n: int, waits: float = 0.3) -> list[RolloutArrays]:
    """Return random rollouts. Skipped steps have NaN rewards and random flags, as if these came from earlier
    rollouts."""
    rng, rollouts = np.random.default_rng(seed), []
    for _ in range(n):
        layout = rollout_layout(SPEC, T, B)
        r = RolloutArrays.of({k: np.zeros(s, d) for k, (d, s) in layout.items()}, 1)
        r.valid[:] = rng.random((T, B)) > waits
        r.ended[:] = rng.random((T, B)) < 0.2
        r.reward[:] = np.where(r.valid, rng.integers(-5, 9, (T, B)) / 4, np.nan)
        rollouts.append(r)
    return rollouts


def oracle(rollouts: list[RolloutArrays], partial_starts: bool) -> list[list[Episode]]:
    rewards: list[list[float]] = [[] for _ in range(B)]
    from_start = [not partial_starts] * B
    found = []
    for r in rollouts:
        found.append([])
        for t in range(T):
            for b in range(B):
                if not r.valid[t, b]:
                    continue
                rewards[b].append(float(r.reward[t, b]))
                if r.ended[t, b]:
                    if from_start[b]:
                        found[-1].append(Episode(sum(rewards[b]), len(rewards[b]), b))
                    rewards[b], from_start[b] = [], True
    return found


@pytest.mark.parametrize("partial_starts", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_episodes_equal_the_slow_way(seed, partial_starts):
    rollouts = random_rollouts(seed, 12)
    tracker = EpisodeTracker(B, 10, partial_starts)
    want = oracle(rollouts, partial_starts)
    assert [tracker.add(r) for r in rollouts] == want
    flat = [e for each in want for e in each]
    assert tracker.count == len(flat) > 20
    assert list(tracker.recent) == [(e.score, e.length, 0) for e in flat[-10:]]


def test_an_episode_whose_beginning_nobody_saw_is_left_out():
    rollouts = random_rollouts(0, 12)
    partial, whole = oracle(rollouts, True), oracle(rollouts, False)
    missing = [e for a, b in zip(partial, whole, strict=True) for e in b if e not in a]
    assert len(missing) == B and {e.b for e in missing} == set(range(B))


@pytest.mark.parametrize("partial_starts", [False, True])
def test_a_lost_worker_is_forgotten(partial_starts):
    """The environments of a lost worker process begin new episodes. Episodes of other environments continue."""
    before, after = random_rollouts(1, 4), random_rollouts(2, 8)
    tracker = EpisodeTracker(B, 100, partial_starts)
    for r in before:
        tracker.add(r)
    tracker.forget(slice(1, 3))
    got = [tracker.add(r) for r in after]
    on, anew = oracle(before + after, partial_starts)[len(before) :], oracle(after, partial_starts)
    for i, episodes in enumerate(got):
        assert [e for e in episodes if e.b in (1, 2)] == [e for e in anew[i] if e.b in (1, 2)]
        assert [e for e in episodes if e.b not in (1, 2)] == [e for e in on[i] if e.b not in (1, 2)]
    assert [e for each in on for e in each] != [e for each in got for e in each]


def test_games():
    """Environment b of the tested tracker is environment 4 + b of the run, and plays game (4 + b) modulo 3."""
    rollouts = random_rollouts(0, 12)
    tracker = EpisodeTracker(B, 20, games=3, first=4)
    episodes = [replace(e, game=(4 + e.b) % 3) for each in oracle(rollouts, False) for e in each]
    assert [e for r in rollouts for e in tracker.add(r)] == episodes
    assert list(tracker.recent) == [(e.score, e.length, e.game) for e in episodes[-20:]]
    games, again = ("pong", "breakout", "seaquest"), EpisodeTracker(B, 20, games=3, first=4)
    again.load_state_dict(decode(*encode(tracker.state_dict())))
    metrics = episode_metrics(again.recent, games)
    for i, game in enumerate(games):
        of_game = [e.score for e in episodes[-20:] if e.game == i]
        assert len(of_game) > 1 and metrics[f"score/{game}"] == pytest.approx(sum(of_game) / len(of_game))
    assert list(metrics) == ["score", "score_std", "length", *(f"score/{game}" for game in games)]


def test_means_of_episodes():
    got = episode_metrics([(1.0, 10, 0), (3.0, 30, 0)])
    assert got == {"score": 2.0, "score_std": 1.0, "length": 20.0}
    for games in ((), ("pong",), ("pong", "breakout")):
        empty = episode_metrics([], games)
        assert all(math.isnan(v) for v in empty.values())
        assert set(empty) == set(got) | {f"score/{game}" for game in games[1:] and games}


def test_state_goes_through_a_checkpoint():
    rollouts = random_rollouts(3, 12)
    whole, first, second = (EpisodeTracker(B, 10, True) for _ in range(3))
    want = [whole.add(r) for r in rollouts]
    for r in rollouts[:2]:
        first.add(r)
    for r in random_rollouts(4, 3):  # load_state_dict must discard the random rollouts.
        second.add(r)
    state = decode(*encode(first.state_dict()))
    for r in rollouts[2:5]:
        first.add(r)  # Rollouts after state_dict() must not change `state`.
    second.load_state_dict(state)
    assert [second.add(r) for r in rollouts[2:]] == want[2:]
    assert second.count == whole.count and second.recent == whole.recent


def test_small_rewards_do_not_drown():
    """A sum of rewards in float32 would round 2**24 + 1 + 1 to 2**24."""
    layout = rollout_layout(SPEC, 3, 1)
    r = RolloutArrays.of({k: np.zeros(s, d) for k, (d, s) in layout.items()}, 1)
    r.valid[:] = True
    r.reward[:, 0] = 2.0**24, 1.0, 1.0
    r.ended[2] = True
    assert EpisodeTracker(1).add(r) == [Episode(2.0**24 + 2, 3, 0)]


def test_the_score_and_the_numbers_that_an_environment_reports():
    spec = replace(SPEC, info_bytes=INFO_BYTES)
    r = RolloutArrays.zeros(spec, 4, 2)
    r.valid[:] = True
    r.reward[:] = 1.0
    r.ended[1, 0] = r.ended[3, 0] = r.ended[2, 1] = True
    r.info[1, 0] = packed({SCORE: 50.0, "laps": 2.0})
    r.info[3, 0] = packed({"laps": 5.0, "won": 1.0})
    tracker = EpisodeTracker(2)
    assert tracker.add(r) == [Episode(50.0, 2, 0), Episode(3.0, 3, 1), Episode(2.0, 2, 0)]
    assert tracker.means() == {"laps": 3.5, "won": 1.0}
    again = EpisodeTracker(2)
    again.load_state_dict(decode(*encode(tracker.state_dict())))
    assert again.means() == tracker.means()


def test_numbers_without_room_are_said(monkeypatch):
    monkeypatch.setattr(notes, "_said", set())
    tracker = EpisodeTracker(1)
    layout = rollout_layout(replace(SPEC, info_bytes=INFO_BYTES), 1, 1)
    arrays = RolloutArrays.of({k: np.zeros(s, d) for k, (d, s) in layout.items()}, 1)
    arrays.valid[:] = arrays.ended[:] = True
    arrays.info[0, 0] = packed({f"a_number_with_a_long_name_{i}": float(i) for i in range(100)})
    with pytest.warns(UserWarning, match="numbers of an episode's last info have no column"):
        tracker.add(arrays)
    assert LEFT_OUT not in tracker.means()
