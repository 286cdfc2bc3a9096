"""accel-rl resume RUN [options]"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from accel_rl.api.resume import Changes, resume
from accel_rl.cli.ending import reported
from accel_rl.config.arguments import parse, positionals, stdout
from accel_rl.runners.run_folder import RunFolder
from accel_rl.system.counts import OptionalCount


@dataclass(frozen=True)
class ResumeEnv:
    backend: str = ""
    """Switch the backend of an Atari game: ale, emulator or auto. Default: the run's backend."""


@dataclass(frozen=True)
class ResumeSampler:
    engine: Literal["", "workers", "in-process", "device"] = ""
    """Switch what steps the environments. To and from `device` only with --env.randomness counter. Default: the run's
    engine."""


@dataclass(frozen=True)
class ResumeOptions:
    env_steps: OptionalCount = None
    """New length of the run in env steps, to extend the run."""
    checkpoint: str = ""
    """Continue from this checkpoint folder of the run instead of the newest."""
    cores: tuple[int, ...] | None = None
    """Cores to use this time, divided evenly among the ranks in this order. Default: --sampler.cores of the run."""
    device: str = ""
    """Continue on this device: auto, cpu, cuda or cuda:N, in place of the run's device and GPUs. Default: as before."""
    env: ResumeEnv = ResumeEnv()
    sampler: ResumeSampler = ResumeSampler()


def main(argv: list[str]) -> int:
    """accel-rl resume RUN [options]"""
    words, options = positionals(argv, ["the run folder"], "accel-rl resume")
    chosen = parse(ResumeOptions, options, "accel-rl resume RUN", "Continue a run, in the same folder and files.")
    run, config = RunFolder.open(Path(words[0]).expanduser())
    changes = Changes(
        chosen.env_steps, chosen.checkpoint, chosen.cores, chosen.env.backend, chosen.sampler.engine, chosen.device
    )
    result = resume(run, config, changes, stdout)
    return reported(RunFolder.open(run.path)[1], run, result)
