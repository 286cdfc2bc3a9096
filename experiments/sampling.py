"""Stooke & Abbeel 2018, section 5.2: how fast sampling is, with A3C-Net on Breakout, by `benchmarks.sampler`.

`python -m experiments.sampling figure_2 --device cuda --out sampling.png`; `--scale 0.1` measures for a tenth as long.
"""

import sys
from dataclasses import dataclass

from accel_rl.arguments import parse, positionals
from accel_rl.errors import ConfigError, nearest


@dataclass(frozen=True)
class Options:
    device: str = "cpu"
    """Where the network runs (the paper: one P100 a process)."""
    scale: float = 1.0
    """Length of the measurements, as a share."""
    workers: tuple[int, ...] = ()
    """Worker processes. Default: as many as there are cores, of figure_2's 1 to 16."""
    out: str = ""
    """Also draw figure_2 into this PNG."""


def figure_2(o: Options) -> list[str]:
    """Steps/s a core against simulators a core, 2 to 64 (two groups need two), for several numbers of cores."""
    from accel_rl import hardware

    cores = len(hardware.allowed_cores())
    workers = o.workers or tuple(n for n in (1, 2, 4, 8, 16) if n <= cores)
    return [*_common(o, 20), "--workers", *map(str, workers), "--envs-per-worker", "2", "4", "8", "16", "32", "64"]


def table_1(o: Options) -> list[str]:
    """2 to 16 simulators a core on all cores, synchronised every five steps, on one GPU (the paper: eight)."""
    workers = ["--workers", *map(str, o.workers)] if o.workers else []
    return [*_common(o, 5), *workers, "--envs-per-worker", "2", "4", "8", "16"]


def _common(o: Options, horizon: int) -> list[str]:
    plot = ["--plot", o.out] if o.out else []
    return [
        *("--game", "breakout", "--nets", "a3c", "--device", o.device, "--horizon", str(horizon)),
        *("--seconds", str(4.0 * o.scale), *plot),
    ]


EXPERIMENTS = {"figure_2": figure_2, "table_1": table_1}


def main(argv: list[str]) -> int:
    from benchmarks.sampler import main as measure

    try:
        words, options = positionals(argv, ["figure_2 or table_1"], "python -m experiments.sampling")
        o = parse(Options, options, "python -m experiments.sampling figure_2|table_1", __doc__ or "")
        if words[0] not in EXPERIMENTS:
            raise ConfigError(f"{words[0]!r} is unknown: must be figure_2 or table_1{nearest(words[0], EXPERIMENTS)}")
        if not 0 < o.scale <= 1:
            raise ConfigError(f"--scale {o.scale}: must be above 0 and at most 1")
    except ConfigError as e:
        print(f"experiments.sampling: {e}", file=sys.stderr)
        return 2
    return measure(EXPERIMENTS[words[0]](o))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
