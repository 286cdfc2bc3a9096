"""Tables 2 and 3 of `benchmarks.scaling`: one training run, measured from its metrics.csv."""

from benchmarks.scaling_settings import RUNS, STEPS, Options
from benchmarks.watched_run import watched_run

REPLAY = 40_000  # ten times its content at the start; the speed of drawing does not depend on how full a replay is
ENVS = {"a2c_ranks": 16, "ppo_ranks": 8}  # environments of a rank


def arguments(o: Options, experiment: str, ranks: int, is_async: bool) -> list[str]:
    flags: list[object] = ["--game", o.game, "--ranks", ranks]
    if experiment in ENVS:
        flags += ["--envs", ENVS[experiment] * ranks]
    if experiment == "ppo_ranks":
        flags += ["--horizon", 256 // ranks]
    if is_async:
        flags += ["--update", "async"]
    if o.gpus:
        flags += ["--gpus", ",".join(o.gpus.split(",")[:ranks])]
    if replays(experiment):  # rounds are long, so there is a row for each
        flags += ["--replay.size", max(REPLAY, 2 * o.fill), "--replay.start", o.fill, "--log.interval", 64]
    else:
        flags += ["--log.interval", 512]
    flags += ["--env-steps", STEPS, "--evaluation.interval", 0, "--checkpoint.interval", 0]
    flags += ["--decorrelation-steps", 30]
    return [f"experiments.stooke:{experiment}", *map(str, flags)]


def replays(experiment: str) -> bool:
    return experiment in [e for e, _ in RUNS[3].values()]


def train(o: Options, experiment: str, ranks: int, is_async: bool) -> dict[str, float]:
    """Train; returns env steps/s between the first and the last row, and shares of time.

    Raises the run's ConfigError or RunError."""
    argv = arguments(o, experiment, ranks, is_async)
    rows, _ = watched_run(f"{experiment} on {ranks} ranks", argv, o.seconds, o.patience)
    first, last = rows[0], rows[-1]
    wall = float(last["wall_s"]) - float(first["wall_s"])
    share = {
        name: (float(last.get(name) or 0) - float(first.get(name) or 0)) / wall for name in ("sync_s", "lock_wait_s")
    }
    return {"steps_per_s": (int(last["env_steps"]) - int(first["env_steps"])) / wall, **share}
