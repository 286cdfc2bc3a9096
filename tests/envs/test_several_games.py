"""In a run of several games, an environment gives the same results as in a run of only its game."""

import math

import numpy as np
import pytest

from accel_rl.data.rollout_arrays import Step
from accel_rl.envs.atari_games import human_normalized
from accel_rl.envs.make import EnvConfig, make_batch, make_spec
from accel_rl.envs.several_games import mean_score, score_by_game, std_of_scores
from accel_rl.text.errors import ConfigError
from tests.env_settings import env_of
from tests.marks import slow

GAMES = ("pong", "breakout", "seaquest")
FIELDS = ("frame", "final_frame", "age", "reward", "terminated", "truncated", "ended", "valid", "info")


def played(settings, indices, actions, reset, training=True) -> list[dict[str, np.ndarray]]:
    """Play the environments with the consecutive indices `indices` of a run as one batch, and return the arrays of all
    steps."""
    config = env_of(**settings)
    spec = make_spec(config, training, reset)
    batch = make_batch(config, [5 + i for i in indices], training, reset, 7, first_index=indices[0])
    out, seen = Step.empty(len(indices), spec), []
    batch.reset(out)
    seen.append({"frame": out.frame.copy()})
    for t, action in enumerate(actions):
        batch.send(action)
        batch.recv(out)
        seen.append({name: getattr(out, name).copy() for name in FIELDS})
        if t % 40 == 39:
            batch.reset_waiting(out)
            seen.append({"frame": out.frame.copy(), "age": out.age.copy()})
    batch.close()
    return seen


@pytest.mark.parametrize(
    ("backend", "reset"),
    [
        ("emulator", "immediate"), slow("emulator", "swap"), slow("emulator", "cached"), slow("emulator", "wait"),
        slow("ale", "immediate"), slow("ale", "swap"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "rules",
    [
        {},
        slow({"repeat_action_probability": 0.25, "frame": "84x84", "life_loss_ends_return": False}),
        slow({"fire_reset": "steps", "noop_min": 1}),
    ],
)  # fmt: skip
def test_each_environment_equals_that_of_a_run_of_its_game(backend, reset, rules):
    if backend == "emulator":
        pytest.importorskip("accel_rl.emulator._core")
    common = {**rules, "backend": backend, "max_episode_steps": 60, "noop_max": 5}
    indices = range(4, 9)  # a batch that begins with environment 4 of the run
    actions = np.random.default_rng(0).integers(18, size=(90, len(indices)))
    actions[11, 2] = -1
    together = played({**common, "game": "pong, breakout,seaquest"}, indices, actions, reset)
    screens = set()
    for k, i in enumerate(indices):
        one = {**common, "game": GAMES[i % 3], "full_action_set": True}
        alone = played(one, [i], actions[:, [k]], reset)
        assert len(alone) == len(together) > 90
        for a, b in zip(alone, together, strict=True):
            for name in a:
                assert np.array_equal(a[name][0], b[name][k]), (i, name)
        assert sum(float(x["ended"][0]) for x in alone if "ended" in x) > 0
        screens.add(alone[0]["frame"].tobytes())
    assert len(screens) == len(indices)


def test_all_have_the_full_action_set_and_one_spec():
    config = env_of(game="pong, breakout , seaquest")
    assert (config.game, config.games, config.full_action_set) == ("pong,breakout,seaquest", GAMES, True)
    spec, alone = (make_spec(c, True) for c in (config, env_of(game="seaquest", full_action_set=True)))
    assert spec.name == config.game and spec.n_actions == 18
    assert {**spec.to_dict(), "name": ""} == {**alone.to_dict(), "name": ""}
    assert env_of(game="pong").full_action_set is None
    many = EnvConfig(game="pong,breakout,seaquest,alien,qbert")
    assert [c.label for c in (config, many, EnvConfig(id="ns/X-v0"))] == [
        "pong,breakout,seaquest",
        "5 games",
        "ns/X-v0",
    ]


def test_equal_minimal_sets():
    minimal = env_of(game="pong,space_invaders", full_action_set=False)
    assert make_spec(minimal, True).n_actions == 6
    with pytest.raises(
        ConfigError, match=r"breakout has other actions \(4\) than pong \(6\); leave out --env.full-action-set"
    ):
        make_spec(env_of(game="pong,breakout", full_action_set=False), True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"game": "pong,brekout"}, r"game='brekout' is unknown.*nearest: breakout"),
        ({"game": "pong,Breakout"}, "nearest: breakout"),
        ({"game": "pong,breakout,pong"}, "names pong twice"),
        ({"game": "pong,,breakout"}, "a name is missing"),
        ({"game": "pong,"}, "a name is missing"),
        ({"game": ","}, "a name is missing"),
        ({"game": "pong,air_raid"}, "air_raid has no published human score.*; 57 games have"),
        ({"game": "pong,skiing"}, r"skiing has other actions \(9\) than pong \(18\)$"),
        ({"game": "pong,breakout", "mode": 4}, "mode=4 is not one of pong's"),
        ({"game": "breakout,pong", "mode": 4}, "mode=4 is not one of pong's"),
        ({"game": "pong,breakout", "difficulty": 7}, "difficulty=7 is not one of pong's"),
        ({"game": "pong,breakout", "kwargs": "{}"}, "is for Gymnasium environments"),
        ({"game": "pong,breakout", "id": "CartPole-v1"}, "give an Atari game or a Gymnasium id"),
    ],
)  # fmt: skip
def test_bad_games(settings, message):
    with pytest.raises(ConfigError, match=message) as error:
        make_spec(env_of(**settings), True)
    assert "\n" not in str(error.value)


def test_a_mode_that_all_games_have():
    config = env_of(game="pong,freeway", mode=1, difficulty=1)
    assert make_spec(config, True).protocol["mode"] == 1


def test_scores_are_compared_in_percent_of_human():
    scores, which = [-20.0, 3.0, -18.0, 4.0, 8.0], [0, 1, 0, 1, 1]
    games = GAMES[:2]
    assert score_by_game(games, scores, which) == {"pong": -19.0, "breakout": 5.0}
    # The human and random scores of Wang et al. 2016 are 14.6 and -20.7 in Pong, 30.5 and 1.7 in Breakout.
    percent = {"pong": 100 * (-19 + 20.7) / (14.6 + 20.7), "breakout": 100 * (5 - 1.7) / (30.5 - 1.7)}
    assert mean_score(games, scores, which) == pytest.approx(sum(percent.values()) / 2)
    assert mean_score(games, scores, which) == pytest.approx(
        (human_normalized("pong", -19.0) + human_normalized("breakout", 5.0)) / 2
    )
    each = [human_normalized(games[i], score) for score, i in zip(scores, which, strict=True)]
    assert std_of_scores(games, scores, which) == pytest.approx(np.std(each))
    assert math.isnan(mean_score(GAMES, scores, which)) and math.isnan(std_of_scores(GAMES, scores, which))
    assert math.isnan(score_by_game(GAMES, scores, which)["seaquest"])
    for one in ((), ("pong",)):
        assert mean_score(one, scores, which) == np.mean(scores) and score_by_game(one, scores, which) == {}
        assert math.isnan(mean_score(one, [], []))
