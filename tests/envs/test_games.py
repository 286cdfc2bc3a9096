"""Lists of Atari games, and published scores of humans, random players and agents."""

import numpy as np
import pytest
from ale_py import ALEInterface, LoggerMode, roms

from accel_rl.envs.atari_games import (
    ATARI_5,
    ATARI_10,
    ATARI_26,
    ATARI_49,
    ATARI_57,
    GAME_LISTS,
    GAMES,
    HUMAN_SCALES,
    check_game,
    check_id,
    game_of,
    human_normalized,
    human_scale,
    named_games,
    scores,
    table,
    unclean_reset,
    unclean_resets,
)
from accel_rl.envs.make import make_env
from accel_rl.text.errors import ConfigError
from tests.env_settings import env_of
from tests.marks import slow


def test_lists() -> None:
    assert (len(GAMES), len(set(ATARI_49)), len(set(ATARI_57))) == (104, 49, 57)
    assert set(ATARI_49) < set(ATARI_57) < set(GAMES)
    assert [len(set(games)) for games in GAME_LISTS.values()] == [5, 10, 26, 49, 57]
    assert set(ATARI_5) < set(ATARI_10) < set(ATARI_57) and set(ATARI_26) < set(ATARI_49)
    assert list(GAME_LISTS) == [f"atari{len(games)}" for games in GAME_LISTS.values()]
    assert set(roms.get_all_rom_ids()) - set(GAMES) == {"combat", "joust", "maze_craze", "warlords"}


def test_unknown_game() -> None:
    with pytest.raises(ConfigError, match="nearest: ms_pacman"):
        check_game("mspacman")


def test_a_name_is_a_game_or_a_list_of_games() -> None:
    assert named_games(["qbert", "atari5"]) == ("qbert", "battle_zone", "double_dunk", "name_this_game", "phoenix")
    with pytest.raises(ConfigError, match=r"'atari6' is neither a game nor a list of games .*; nearest: atari"):
        named_games(["atari6"])
    with pytest.raises(ConfigError, match=r"nearest: ms_pacman$"):
        named_games(["MsPacman"])


def test_scales_of_57_and_49_games() -> None:
    """Random and human scores of the 57 games (Hessel et al. 2018), and of the 49 games (Nair et al. 2015), whose human
    scores differ in some games."""
    assert [human_scale(game) for game in ("pong", "breakout", "beam_rider", "phoenix", "skiing")] == [
        (-20.7, 14.6), (1.7, 30.5), (363.9, 16926.5), (761.4, 7242.6), (-17098.1, -4336.9),
    ]  # fmt: skip
    assert human_scale("beam_rider", "nair2015") == (363.9, 5774.7)
    assert human_scale("phoenix", "nair2015") is None and human_scale("adventure") is None
    for scale, games in zip(HUMAN_SCALES, (ATARI_57, ATARI_49), strict=True):
        assert [game for game in GAMES if human_scale(game, scale)] == list(games)
    for game in ATARI_57:
        random, human = human_scale(game)  # type: ignore[misc]
        assert random < human
    for game in ATARI_49:
        assert human_scale(game)[0] == scores()[game]["random"]  # type: ignore[index]
    with pytest.raises(ConfigError, match="must be wang2016 or nair2015"):
        human_scale("pong", "mnih")


def test_the_table_has_both_scales_and_the_lists() -> None:
    rows = {line.split()[0]: line.split()[1:] for line in table()}
    assert rows["qbert"] == ["x"] * 5 + ["163.9", "13,455.0", "13,455.0"]
    assert rows["phoenix"] == ["x"] * 3 + ["761.4", "7,242.6", "-"] and rows["adventure"] == ["-"] * 3
    assert rows["beam_rider"] == ["x"] * 2 + ["363.9", "16,926.5", "5,774.7"]


def test_scores_cover_the_49() -> None:
    for start in ("null_op", "human"):
        assert sorted(scores(start)) == sorted(ATARI_49)
    with pytest.raises(ConfigError, match="null_op or human"):
        scores("noop")


@pytest.mark.parametrize(
    ("game", "start", "agent", "percent"),
    [  # Scores from Nair et al. 2015, tables 1 and 2.
        ("breakout", "null_op", "dqn", 1327.24),
        ("pong", "null_op", "gorila", 130.0),
        ("zaxxon", "null_op", "gorila", 77.63),
        ("atlantis", "human", "gorila", 4695.72),
        ("seaquest", "human", "dqn", 6.41),
        ("enduro", "human", "gorila", 18.59),
    ],
)
def test_human_normalized(game: str, start: str, agent: str, percent: float) -> None:
    assert human_normalized(game, scores(start)[game][agent], "nair2015", start) == pytest.approx(percent, abs=0.02)


def test_human_normalized_ends() -> None:
    assert human_normalized("pong", -20.7) == 0.0 and human_normalized("pong", 14.6) == pytest.approx(100)
    assert human_normalized("pong", 9.3, "nair2015") == 100.0 and human_normalized("qbert", 163.9) == 0.0
    with pytest.raises(ConfigError, match="published scores: 49 games"):
        human_normalized("skiing", 0.0, "nair2015")
    with pytest.raises(ConfigError, match="published scores: 57 games"):
        human_normalized("adventure", 0.0)
    with pytest.raises(ConfigError, match="only scores from null-op starts"):
        human_normalized("pong", 0.0, start="human")


def play_frames(ale: ALEInterface, frames: int, seed: int) -> list[tuple]:
    actions = np.random.default_rng(seed).choice([a.value for a in ale.getMinimalActionSet()], frames)
    return [
        (ale.act(int(a)), ale.getRAM().tobytes(), ale.getScreen().tobytes()) for a in actions if not ale.game_over()
    ]


def course_after(game: str, plays: list[int]) -> list[tuple]:
    """Return the frames of an ale-py emulator after its last reset. The emulator plays plays[i] frames after its i-th
    reset."""
    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale = ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(roms.get_rom_path(game))
    actions = ale.getMinimalActionSet()
    for i, frames in enumerate(plays):
        ale.reset_game()
        for action in np.random.default_rng(i + 1).integers(len(actions), size=frames):
            if ale.game_over():
                break
            ale.act(actions[action])
    ale.reset_game()
    return [(0, ale.getRAM().tobytes(), b""), *play_frames(ale, 400, seed=0)]


PLAYS = [[700], [20] * 6, [1500], [5000, 333], [150] * 3]


def is_clean(game: str, plays: list[list[int]]) -> bool:
    first = course_after(game, [])
    return all(course_after(game, frames) == first for frames in plays)


@pytest.mark.parametrize("game", ["solaris", "surround", slow("breakout"), slow("pong")])
def test_what_a_reset_leaves_behind(game: str) -> None:
    assert is_clean(game, PLAYS[:2]) == (game not in unclean_resets())


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_no_other_game_leaves_something_behind() -> None:
    assert not [game for game in GAMES if game not in unclean_resets() and not is_clean(game, PLAYS)]


def test_unclean_resets() -> None:
    assert unclean_resets() < set(GAMES)
    assert unclean_reset("breakout", "cached") is None and unclean_reset("seaquest", "wait") is None
    assert "keeps something" in str(unclean_reset("seaquest", "swap"))
    assert "inexactly" in str(unclean_reset("qbert", "cached")) and unclean_reset("qbert", "swap") is None
    assert unclean_reset("", "swap") is None  # not an Atari game


def random_returns(game: str, episodes: int, seed: int = 0) -> np.ndarray:
    """Return the scores of games of at most 18,000 frames, with a new random action every six frames (10 Hz)."""
    config = env_of(game=game, protocol="mnih2015", frame_skip=6, max_evaluation_steps=3_000, frame="104x80")
    env = make_env(config, seed, training=False)
    rng = np.random.default_rng(seed)
    frame = np.zeros(env.spec.frame_shape, np.uint8)
    returns = []
    for _ in range(episodes):
        env.reset(frame)
        total, ended = 0.0, False
        while not ended:
            reward, _, _, ended = env.step(int(rng.integers(env.spec.n_actions)), frame)
            total += reward
        returns.append(total)
    return np.array(returns)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("game", ["pong", "breakout", "boxing", "freeway", "space_invaders"])
def test_random_play_scores_as_published(game: str) -> None:
    """The mean of 30 games with random actions at 10 Hz is close to the published random score (Mnih et al. 2015)."""
    returns = random_returns(game, 30)
    published = scores()[game]["random"]
    # The error is at least 0.1, because the published mean is also inexact.
    error = max(returns.std(ddof=1) / np.sqrt(len(returns)), 0.1)
    print(f"{game}: {returns.mean():.2f} +- {error:.2f}, published {published}")
    assert abs(returns.mean() - published) <= 3 * error


@pytest.mark.parametrize(
    ("id", "game"),
    [
        ("ALE/Pong-v5", "pong"),
        ("ALE/Pong-ram-v5", "pong"),
        ("MsPacmanNoFrameskip-v4", "ms_pacman"),
        ("UpNDownDeterministic-v0", "up_n_down"),
        ("Qbert", "qbert"),
        ("CartPole-v1", ""),
        ("ALE/Pongg-v5", ""),
    ],
)
def test_the_game_of_another_librarys_id(id, game):
    assert game_of(id) == game


@pytest.mark.parametrize("id", ["ALE/Pong-v5", "PongNoFrameskip-v4", "accel_rl/Pong-v5"])
def test_an_id_of_another_library_is_answered_with_the_game(id):
    with pytest.raises(ConfigError, match=rf"^game='{id}' is unknown: .*; nearest: pong$"):
        check_game(id)
    with pytest.raises(
        ConfigError, match=rf"^--env {id}: is an Atari game; use --game pong \(in Python game='pong'\)$"
    ):
        check_id(id)
    check_id("CartPole-v1")
