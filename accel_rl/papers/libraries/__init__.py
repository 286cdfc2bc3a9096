"""Compares runs with the scores that other libraries and papers have published for their algorithms, at equal numbers
of env steps."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from accel_rl.envs.protocols import OVERRIDES, PROTOCOLS, Protocol
from accel_rl.papers.libraries.sources import Kind, Points, Source, read_sources
from accel_rl.results.run_settings import Settings, complete, plays_atari
from accel_rl.settings.registry import ALGORITHMS


@dataclass(frozen=True)
class LibraryScore:
    """A published score of an algorithm in a game after `env_steps`.

    `mean` and `deviation` (the standard deviation) are over `seeds` seeds. The deviation is None if the source does not
    publish a deviation or the score is of one run. The number of seeds is None if the source does not publish this
    number. `kind` is the kind of the score's episodes, training or evaluation. `protocol` names the rules of the
    source's environment, and is "" if the source does not state them. `differences` lists the differences between the
    rules of the source and the rules of the run. With `interpolated`, the score is between two published points. If
    `window` is not 0, the score is the mean of the episodes that ended in the last `window` env steps.
    """

    source: str
    env_steps: int
    mean: float
    deviation: float | None
    seeds: int | None
    kind: Kind
    protocol: str
    differences: tuple[str, ...]
    interpolated: bool
    window: int = 0


def library_scores(settings: Settings, env_steps: float) -> Iterator[LibraryScore]:
    """The published scores of a run's algorithm and game, one for each source, even if the source's rules differ from
    the run's.

    The score of a published curve is interpolated linearly at `env_steps`. If the curve ends before `env_steps`, its
    last score is used; if the curve begins after `env_steps`, the source is omitted. For a source with a single score,
    this score is used, at the source's number of env steps.
    """
    if not plays_atari(settings) or settings.get("algorithm") not in ALGORITHMS:
        return
    completed = complete(settings)
    for source in read_sources():
        points = source.games.get(str(completed.get("env.game")))
        if points is None or not _is_of(source, completed):
            continue
        first, last = points.env_steps[[0, -1]]
        if first == last or env_steps >= first:
            yield _score(source, points, min(max(env_steps, first), last), rule_differences(source, completed))


def _is_of(source: Source, completed: Mapping[str, Any]) -> bool:
    return (
        source.algorithm == completed.get("algorithm")
        and source.lstm == bool(completed.get("algo.lstm"))
        and all(completed.get(name) == value for name, value in source.settings.items())
    )


def _score(source: Source, points: Points, env_steps: float, differences: tuple[str, ...]) -> LibraryScore:
    mean, deviation = (float(np.interp(env_steps, points.env_steps, x)) for x in (points.mean, points.deviation))
    return LibraryScore(
        source=source.source,
        env_steps=round(env_steps),
        mean=mean,
        deviation=None if math.isnan(deviation) else deviation,
        seeds=source.seeds,
        kind=source.kind,
        protocol=source.protocol,
        differences=differences,
        interpolated=env_steps not in points.env_steps,
        window=source.window,
    )


def rule_differences(source: Source, completed: Mapping[str, Any]) -> tuple[str, ...]:
    """Differences of a source's rules from those of a run, such as "sticky actions". `completed` has the run's
    rules as {"env.RULE": value}."""
    if not source.protocol:
        return source.differs
    protocol = PROTOCOLS[source.protocol]
    # Training episodes and evaluation episodes have separate time limits.
    unused = "max_evaluation_steps" if source.kind == "training" else "max_episode_steps"
    differing = [r for r in OVERRIDES if r != unused and getattr(protocol, r) != completed.get(f"env.{r}")]
    return (*dict.fromkeys(_text(protocol, rule) for rule in differing), *source.differs)


def _text(protocol: Protocol, rule: str) -> str:
    p, value = protocol, getattr(protocol, rule)
    no_ops = f"{p.noop_min} to {p.noop_max} no-ops" if p.noop_max else "no no-ops"
    texts = {
        "frame_skip": f"{value} frames per action",
        "repeat_action_probability": "sticky actions" if value else "no sticky actions",
        "noop_min": no_ops,
        "noop_max": no_ops,
        "fire_reset": {"none": "no FIRE", "frame": "EnvPool's FIRE", "steps": "FIRE after resets"}[p.fire_reset],
        "life_loss_ends_return": "lives end episodes" if value else "lives end no episode",
        "max_episode_steps": f"time limit of {value} env steps",
        "max_evaluation_steps": f"time limit of {value} env steps",
        "full_action_set": "18 actions" if value else "minimal actions",
        "frame": f"frames of {value}",
        "stack": f"{value} stacked frames",
    }
    return texts.get(rule) or f"{rule} {value}"
