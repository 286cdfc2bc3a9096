"""accel-rl bench NAME [options]: `python -m benchmarks.NAME`."""

import importlib

from accel_rl.system.errors import ConfigError, nearest

PROGRAMS = {
    "sampler": "sampler-only throughput, against its own parts",
    "train": "whole training, against Stable-Baselines3",
    "emulator": "the emulator against ale-py and EnvPool",
    "replay": "replays against other libraries'",
    "scaling": "ranks and cores",
    "concurrent": "the concurrent schedule against lockstep",
    "kernels": "what each compiled kernel brings to training",
    "gradient_sync": "gradient synchronization",
    "parameter_server": "pushes and pulls of the parameter server",
    "bundles": "updates/s of a cluster on this machine by its number of bundles",
    "gorila_scaling": "a cluster of many bundles, simulated from measured calls",
    "cuda_emulator": "emulation, inference and training by number of environments",
    "gpu": "everything that a GPU is measured by",
}


def main(argv: list[str]) -> int:
    """accel-rl bench NAME [options]"""
    if not argv or argv[0] in ("-h", "--help"):
        lines = [f"  {name:<17} {what}" for name, what in PROGRAMS.items()]
        print(
            "\n".join(["usage: accel-rl bench NAME ...", "", *lines, "", "accel-rl bench NAME --help lists options."])
        )
        return 0
    if argv[0] not in PROGRAMS:
        raise ConfigError(f"unknown benchmark {argv[0]!r}; allowed: {', '.join(PROGRAMS)}{nearest(argv[0], PROGRAMS)}")
    module = "gpu.__main__" if argv[0] == "gpu" else argv[0]
    return int(importlib.import_module(f"benchmarks.{module}").main(argv[1:]))
