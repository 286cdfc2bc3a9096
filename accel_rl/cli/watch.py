"""accel-rl watch RUN [options]"""

from dataclasses import dataclass, field
from pathlib import Path

from accel_rl.api.trained_agent import trained_agent
from accel_rl.config.acting import ActingEnv
from accel_rl.config.arguments import parse, positionals, stdout
from accel_rl.runners import video
from accel_rl.runners.run_folder import RunFolder
from accel_rl.system.counts import Count
from accel_rl.system.errors import ConfigError


@dataclass(frozen=True)
class WatchOptions:
    out: str = ""
    """File to write, .mp4 or .gif. Default: videos/ in the run folder."""
    steps: Count = 27_000
    """Longest episode in env steps."""
    seed: Count = 0
    """Seed of the environment and of the agent's choices."""
    greedy: bool = False
    """Act greedily instead of sampling from the policy."""
    checkpoint: str = ""
    """Show this checkpoint folder instead of the newest."""
    best: bool = False
    """Show the network with the best evaluation instead of the newest checkpoint."""
    device: str = ""
    """Device to act on: auto, cpu, cuda or cuda:N. Default: the run's, or one of this machine, with a note."""
    env: ActingEnv = field(default_factory=ActingEnv)


def main(argv: list[str]) -> int:
    """accel-rl watch RUN [options]"""
    words, options = positionals(argv, ["the run folder"], "accel-rl watch")
    chosen = parse(WatchOptions, options, "accel-rl watch RUN", "Make a video of a run's agent playing one episode.")
    if chosen.out and Path(chosen.out).suffix not in (".mp4", ".gif"):
        raise ConfigError(f"--out {chosen.out}: must end in .mp4 or .gif")
    if chosen.steps < 1:
        raise ConfigError(f"--steps {chosen.steps}: must be at least 1")
    run, config = RunFolder.open(Path(words[0]).expanduser())
    config, state, agent, _ = trained_agent(
        run, config, chosen.checkpoint, chosen.greedy, chosen.best, chosen.device, chosen.env.backend
    )
    out = Path(chosen.out).expanduser() if chosen.out else video.default_path(run.path, state["env_steps"])
    episode = video.Episode(config, agent, chosen.seed, chosen.steps)
    n = video.write(episode.pictures(), out, episode.fps)
    stdout(f"{out}: {n} pictures, score {episode.score:g} in {episode.length:,} env steps")
    return 0
