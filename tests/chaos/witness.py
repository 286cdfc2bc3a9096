"""A callback that writes each of its calls to metrics.csv, so that trials find a lost or repeated call."""

from accel_rl import Callback
from accel_rl.samplers.episodes import Episode
from accel_rl.training.callback import Training
from accel_rl.training.evaluation import Evaluation


class Witness(Callback):
    """Logs the length of each episode, and the score of each evaluation."""

    def on_episode(self, training: Training, episode: Episode) -> None:
        training.log("witness/length", episode.length)

    def on_evaluation(self, training: Training, evaluation: Evaluation) -> None:
        training.log("witness/evaluation", evaluation.mean)
