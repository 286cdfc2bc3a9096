"""Options of commands that act on a run, as flags of `accel-rl COMMAND RUN` and keywords of the methods of `Run`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from accel_rl.api.keywords import plain
from accel_rl.settings.acting import ActingEnv
from accel_rl.settings.flags import flags_of, replaced
from accel_rl.settings.trust import TrustOptions
from accel_rl.settings.types import check_types
from accel_rl.text.counts import Count, OptionalCount
from accel_rl.text.errors import ConfigError, nearest

Options = TypeVar("Options")


@dataclass(frozen=True)
class ResumeSampler:
    engine: Literal["", "workers", "in-process", "device"] = ""
    """Engine that steps the environments, by default the run's engine. Switching to or from the engine `device`
    requires --env.randomness counter."""


@dataclass(frozen=True)
class ResumeOptions(TrustOptions):
    env_steps: OptionalCount = None
    """New length of the run in env steps, which extends the run."""
    checkpoint: str = ""
    """Continue from this checkpoint folder of the run instead of the newest checkpoint."""
    cores: tuple[int, ...] | None = None
    """Cores that the resumed run uses, divided evenly among the ranks in the given order. The default cores are
    --sampler.cores of the run."""
    device: str = ""
    """Device on which the run continues (auto, cpu, cuda or cuda:N), instead of the run's device and GPUs."""
    quiet: bool = False
    """Print only warnings and errors."""
    sampler: ResumeSampler = field(default_factory=ResumeSampler)


@dataclass(frozen=True)
class NetworkOptions(TrustOptions):
    checkpoint: str = ""
    """Use this checkpoint folder instead of the newest checkpoint."""
    best: bool = False
    """Use the network with the best evaluation instead of the newest checkpoint."""


@dataclass(frozen=True)
class ActingOptions(NetworkOptions):
    seed: Count = 0
    """Seed of the environments and of the agent's choices."""
    greedy: bool = False
    """Act greedily instead of sampling from the policy."""
    device: str = ""
    """Device on which the agent acts: auto, cpu, cuda or cuda:N; by default the run's device. If this machine does not
    have the run's device, another device is used and logged."""
    env: ActingEnv = field(default_factory=ActingEnv)


@dataclass(frozen=True)
class EvaluateOptions(ActingOptions):
    episodes: Count = 30
    """Number of evaluation episodes to play, of each game. With 0, the evaluation lasts --steps env steps. With
    --starts saved, one episode begins at each start point."""
    steps: Count = 125_000
    """Number of env steps of the evaluation, with --episodes 0."""
    parallel: Count = 16
    """Number of environments in which episodes are played in parallel."""
    starts: Literal["", "noop", "saved"] = ""
    """How Atari episodes start, as in --evaluation.starts; by default the run's setting."""
    starts_file: str = ""
    """File of start points, created by `accel-rl starts`, for --starts saved; by default the run's file."""
    random: bool = False
    """Evaluate uniformly random actions at 10 Hz (each repeated for 6 frames) instead of an agent (Nair et al.
    2015)."""
    save: bool = False
    """Write the evaluation's result also to final/ in the run folder, where `accel-rl report` finds the result. The
    name of the result's file depends on the starts: noop.json or saved.json, and random-noop.json or random-saved.json
    with --random."""
    json: str = ""
    """File to which every score is also written, with the protocol."""

    def check(self) -> None:
        if self.seed < 0:
            raise ConfigError(f"--seed {self.seed}: must be a whole number, 0 or more")
        if self.random and (self.best or self.checkpoint or self.greedy):
            raise ConfigError("--random evaluates no agent of the run: leave out --best, --checkpoint and --greedy")


@dataclass(frozen=True)
class WatchOptions(ActingOptions):
    out: str = ""
    """File of the video, .mp4 or .gif; by default in videos/ of the run folder."""
    steps: Count = 27_000
    """Maximum length of the episode in env steps."""
    game: str = ""
    """Game that is played, if the agent plays several games; by default the first."""

    def check(self) -> None:
        if self.out and not self.out.endswith((".mp4", ".gif")):
            raise ConfigError(f"--out {self.out}: must end in .mp4 or .gif")
        if self.steps < 1:
            raise ConfigError(f"--steps {self.steps}: must be at least 1")


@dataclass(frozen=True)
class ExportOptions(NetworkOptions):
    out: str = ""
    """Folder that is created for the model, by default model/ in the run folder."""
    float16: bool = False
    """Store the network's parameters as float16, which halves the size of the file. The parameters are converted back
    to float32 when the model is loaded."""
    onnx: bool = False
    """Also write the network as policy.onnx, which needs the extra `onnx`."""


def keywords_of(cls: type) -> dict[str, str]:
    """{keyword: full name}, such as `backend`: env.backend."""
    return {name.replace("-", "_"): flag[2:].replace("-", "_") for flag, name in flags_of(cls).items()}


def from_keywords(cls: type[Options], values: Mapping[str, Any]) -> Options:
    """Options of a group have short names as keywords, such as `backend` for --env.backend. Whole numbers may be given
    as floats (1e6) or numpy's numbers. Raises ConfigError, with a message of one line, for an unknown name or a wrong
    value."""
    paths = keywords_of(cls)
    chosen = {}
    for name, value in values.items():
        if name not in paths:
            raise ConfigError(f"unknown option {name}{nearest(name, paths)}; allowed: {', '.join(paths)}")
        value = plain(value)
        chosen[paths[name]] = int(value) if isinstance(value, float) and value.is_integer() else value
    result = replaced(cls(), chosen)
    check_types(result)
    return result
