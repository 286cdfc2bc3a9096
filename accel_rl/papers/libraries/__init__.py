"""This module reads scores that other libraries have published for their algorithms. The scores are compared with runs
at the same number of env steps."""

from collections.abc import Iterator
from dataclasses import dataclass

from accel_rl.papers.published import published_by
from accel_rl.results.run_settings import Settings, plays_atari


@dataclass(frozen=True)
class LibraryScore:
    """`LibraryScore` is a published training score of an algorithm in a game after `env_steps`.

    `mean` and `deviation` (the standard deviation) are over `seeds` seeds. The deviation and the number of seeds are
    None if the source does not publish them. `protocol` is "" if the source does not state the rules of its
    environment.
    """

    source: str
    env_steps: int
    mean: float
    deviation: float | None
    seeds: int | None
    protocol: str


def library_scores(settings: Settings) -> Iterator[LibraryScore]:
    """Yield the published scores of a run's algorithm and game, if their protocol is that of the run or is not
    stated."""
    table = published_by("libraries")["scores"]
    if not plays_atari(settings) or (settings.get("env.protocol") or "") not in {row["protocol"] for row in table}:
        return
    for row in table:
        is_alike = row["algorithm"] == settings.get("algorithm") and row["lstm"] == bool(settings.get("algo.lstm"))
        has_rules = row["protocol"] in (None, settings.get("env.protocol"))
        game = row["games"].get(settings.get("env.game"))
        if is_alike and has_rules and game:
            mean, deviation = game
            yield LibraryScore(row["source"], row["env_steps"], mean, deviation, row["seeds"], row["protocol"] or "")
