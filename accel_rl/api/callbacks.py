"""The built-in callbacks.

accel_rl.train("ppo", game="pong", callbacks=[StopAtScore(score=18), VideoEvery(env_steps=500_000)])
accel-rl train ppo --game pong --callback 'StopAtScore(score=18)' --callback SaveBest
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from accel_rl.api.export import export
from accel_rl.api.options import ExportOptions
from accel_rl.envs.gymnasium import missing_renderer
from accel_rl.files.durable_files import remove_folder
from accel_rl.metrics.update_metrics import UpdateMetrics
from accel_rl.models.network_state import buffers_kept
from accel_rl.run import video
from accel_rl.run.run_folder import RunFolder
from accel_rl.samplers.episodes import Episode
from accel_rl.settings.resolved import Resolved
from accel_rl.text.errors import ConfigError
from accel_rl.training.callback import Callback, Training
from accel_rl.training.evaluation import Evaluation
from accel_rl.training.seeds import own_generator
from accel_rl.training.stored_agents import BestAgent

logger = logging.getLogger(__name__)


@dataclass
class StopAtScore(Callback):
    """End the run when the mean score of the last `episodes` training episodes reaches `score`. In a run of several
    games, `score` is in percent of the human score."""

    score: float
    episodes: int = 100
    """Number of last episodes over which the score is averaged, at most --log.window. The callback never ends a run in
    which fewer episodes have ended."""

    def on_start(self, training: Training) -> None:
        window, games = training.config.window, len(training.config.env.games)
        most = f"{window}, --log.window times {games} games" if games > 1 else f"--log.window {window}"
        if not 1 <= self.episodes <= window:
            raise ConfigError(f"StopAtScore(episodes={self.episodes}): must be 1 to {most}")

    def on_episode(self, training: Training, episode: Episode) -> bool:
        recent = training.recent[-self.episodes :]
        return len(recent) < self.episodes or not training.mean_score(recent) >= self.score


@dataclass
class SaveBest(Callback):
    """At each checkpoint, store the network if the mean score of the last --log.window training episodes is the best so
    far. The network is stored in best-training/ of the run folder. `accel-rl evaluate RUN --checkpoint
    RUN/best-training/checkpoints/NUMBER` evaluates this network. The network of the best evaluation is always stored,
    in best/.
    """

    def on_start(self, training: Training) -> None:
        """A resumed run calls `on_checkpoint` again for its checkpoint, because the previous process may have been
        killed between the checkpoint and the call."""
        self.on_checkpoint(training, training.path)

    def on_checkpoint(self, training: Training, path: Path) -> None:
        if recent := training.recent:
            scores, lengths, played = zip(*recent, strict=True)
            best = BestAgent(RunFolder(training.path), "best-training")
            protocol = training.config.spec.protocol
            online = Evaluation(scores, lengths, protocol, training.config.env.games, played)
            best.note(training.env_steps, online, training.learner.agent_state())


@dataclass
class VideoEvery(Callback):
    """Write a video of an evaluation episode to videos/ of the run folder, every `env_steps` env steps."""

    env_steps: int = 1_000_000
    max_steps: int = 27_000
    """Maximum length of the episode in env steps."""
    seed: int = 0
    """Seed of the environment and of the agent's choices."""

    def __post_init__(self) -> None:
        if self.env_steps < 1 or self.max_steps < 1:
            raise ConfigError(f"env_steps {self.env_steps} and max_steps {self.max_steps} must be positive")

    @classmethod
    def check_settings(cls, config: Resolved) -> None:
        if config.env.id and (install := missing_renderer(config.env.id)):
            raise ConfigError(f"--callback VideoEvery: {config.env.id} cannot be rendered without {install}")

    def on_start(self, training: Training) -> None:
        self._next = (training.env_steps // self.env_steps + 1) * self.env_steps
        episode = video.FilmedEpisode(training.config, training.agent, self.seed, max_steps=0)
        # A frame is rendered now, so that an environment that cannot be rendered ends the run before training.
        next(episode.pictures())
        episode.env.close()

    def on_update(self, training: Training, updates: list[UpdateMetrics]) -> None:
        if training.env_steps < self._next:
            return
        self._next = (training.env_steps // self.env_steps + 1) * self.env_steps
        agent = training.agent.evaluating(training.config.evaluation.greedy)
        path = video.default_path(training.path, training.env_steps)
        with own_generator(str(training.learner.algo.device), self.seed), buffers_kept(agent.model):
            episode = video.FilmedEpisode(training.config, agent, self.seed, self.max_steps)
            video.write(episode.pictures(), path, episode.fps)
        training.event(f"video {path}: score {episode.score:g} in {episode.length:,} env steps")


class WandbArtifacts(Callback):
    """Upload the run's new videos to Weights & Biases at each checkpoint. At the end of the run, upload the model as an
    artifact of the type `model`, with the files of `accel-rl export`. An upload that fails does not end the run."""

    @classmethod
    def check_settings(cls, config: Resolved) -> None:
        if config.wandb == "disabled":
            raise ConfigError("WandbArtifacts: Weights & Biases is disabled; use --wandb online or offline")

    def on_start(self, training: Training) -> None:
        self._uploaded = set(_videos(training.path))

    def on_checkpoint(self, training: Training, path: Path) -> None:
        new = sorted(_videos(training.path) - self._uploaded)
        self._uploaded.update(new)
        for file in new:
            self._upload_video(training, file)

    def on_end(self, training: Training) -> None:
        self.on_checkpoint(training, training.path)
        folder = training.path / "wandb" / "model"
        remove_folder(folder)  # If the run ended once before and was then resumed, the folder contains an older model.
        run, config = RunFolder.open(training.path, trust=True)
        export(run, config, ExportOptions(out=str(folder)))
        with _uploading("the model"):
            import wandb

            if wandb.run is not None:
                artifact = wandb.Artifact(
                    f"{training.path.name}-model", "model", metadata={"env_steps": training.env_steps}
                )
                artifact.add_dir(str(folder))
                wandb.run.log_artifact(artifact)

    def _upload_video(self, training: Training, file: Path) -> None:
        with _uploading(file.name):
            import wandb

            if wandb.run is not None:
                wandb.run.log({"videos/episode": wandb.Video(str(file))}, step=training.env_steps)


@contextmanager
def _uploading(name: str) -> Iterator[None]:
    """A context in which a failed upload is logged, and does not end the run."""
    try:
        yield
    except Exception as e:
        logger.warning(f"wandb: {name} was not uploaded ({' '.join(str(e).split())})")


def _videos(run: Path) -> set[Path]:
    return {file for file in (run / "videos").glob("*") if file.suffix in (".mp4", ".gif")}
