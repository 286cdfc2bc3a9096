"""One agent can play several games. Environment i of the run plays games[i % len(games)], so that every group of
environments, worker process and rank has about the same number of environments of each game.

Scores of different games are compared in percent of the human score (`human_normalized`). In this module, `scores[i]`
is the score of an episode of games[played[i]].
"""

from collections.abc import Sequence

import numpy as np

from accel_rl.envs.atari_games import ATARI_57, check_game, human_normalized, human_scale
from accel_rl.text.errors import ConfigError, nearest


def check_games(games: Sequence[str]) -> None:
    """Raise ConfigError unless several games can be played together. A single game is not checked."""
    if len(games) < 2:
        return
    text = ",".join(games)
    if "" in games:
        raise ConfigError(f"game={text!r}: a name is missing before or after a comma")
    for i, game in enumerate(games):
        check_game(game)
        if game in games[:i]:
            raise ConfigError(f"game={text!r} names {game} twice: give each game once")
        if human_scale(game) is None:
            raise ConfigError(
                f"game={text!r}: {game} has no published human score, by which the scores of several games are "
                f"compared; {len(ATARI_57)} games have" + nearest(game, ATARI_57)
            )


def score_by_game(games: Sequence[str], scores: Sequence[float], played: Sequence[int]) -> dict[str, float]:
    """Return the mean score of each game, or NaN for a game without episodes. For a single game, return {}."""
    of_game: list[list[float]] = [[] for _ in games]
    for score, i in zip(scores, played, strict=True) if len(games) > 1 else ():
        of_game[i].append(score)
    means = (float(np.mean(x)) if x else float("nan") for x in of_game)
    return dict(zip(games, means, strict=True)) if len(games) > 1 else {}


def mean_score(games: Sequence[str], scores: Sequence[float], played: Sequence[int]) -> float:
    """Return the mean score. With several games, each game's mean score is converted to percent of human, and the mean
    over the games is returned, or NaN if a game has no episodes."""
    if means := score_by_game(games, scores, played):
        return float(np.mean([human_normalized(game, mean) for game, mean in means.items()]))
    return float(np.mean(scores)) if len(scores) else float("nan")


def std_of_scores(games: Sequence[str], scores: Sequence[float], played: Sequence[int]) -> float:
    """Return the standard deviation of scores over episodes, with several games in percent of human. The result is NaN
    if `mean_score` is NaN."""
    if len(games) > 1:
        if len(set(played)) < len(games):
            return float("nan")
        scores = [human_normalized(games[i], score) for score, i in zip(scores, played, strict=True)]
    return float(np.std(scores)) if len(scores) else float("nan")
