"""A run stores the network with the best evaluation score (Nair et al. 2015, section 5.2, evaluate the best network at
the end)."""

import math
import sys
from pathlib import Path
from typing import Any

from torch import Tensor

from accel_rl.checkpoints.checkpoint import Checkpoints, load
from accel_rl.models.network_state import load_network
from accel_rl.run.run_folder import RunFolder
from accel_rl.text.errors import ConfigError
from accel_rl.text.notes import say_once
from accel_rl.training.evaluation import Evaluation


def agent_state(agent: dict[str, Any], network: dict[str, Tensor]) -> dict[str, Any]:
    """The part of a learner's state that `load_agent` needs, without the optimizer and the replay. `agent` is the
    agent's `state_dict()`. `network` has the network's tensors by name."""
    return {"algo": {"agent": agent}, "network": network}


class BestAgent:
    """Stores the network with the highest mean evaluation score so far in the run's folder `best`.

    The best network's file is written atomically, and verified when it is read. Of networks with equal scores, the
    first is stored. The best score is stored with the network, so that a resumed run continues the comparison. For each
    of the run's checkpoints, the network that was the best at this checkpoint is also stored, because the run may
    continue from this checkpoint (`rewind`). Only one process may write the best network.
    """

    def __init__(self, run: RunFolder, folder: str = "best"):
        self._run = run
        self._folder = folder
        self._score: float | None = None

    @property
    def _kept(self) -> Checkpoints:
        return Checkpoints(self._run.path / self._folder / "checkpoints", keep=sys.maxsize)

    @property
    def score(self) -> float:
        """Mean score of the best evaluation, or -inf before the first evaluation. Damaged files are logged and ignored,
        because training can continue without them."""
        if self._score is None:
            self._score, kept = -math.inf, self._kept
            for steps in reversed(kept.steps()):
                try:
                    self._score = float(load(kept.path(steps))["evaluation"]["score_mean"])
                    break
                except ConfigError as e:
                    say_once(f"a best network is not compared with later ones: {e}")
        return self._score

    def note(self, env_steps: int, evaluation: Evaluation, state: dict[str, Any]) -> bool:
        """Store a network if its evaluation is the best so far, and return whether it is. `state` is the result of the
        function `agent_state`. Raises RunError if the disk is full."""
        if not evaluation.mean > self.score:  # An evaluation without episodes has the mean NaN.
            return False
        kept = self._kept
        kept.folder.parent.mkdir(exist_ok=True)
        kept.clean()
        kept.save(env_steps, {"env_steps": env_steps, "evaluation": evaluation.to_dict(), "learner": state})
        *earlier, _ = kept.steps()
        starts = Checkpoints(self._run.path / "checkpoints").steps()
        needed = {max((best for best in earlier if best <= start), default=None) for start in starts}
        kept.remove(set(earlier) - needed)
        self._score = evaluation.mean
        return True

    def load(self) -> dict[str, Any] | None:
        """Read and verify the best network's file, a dict with env_steps, evaluation and learner. Raises ConfigError if
        the file is damaged."""
        result = self._kept.load_latest()
        return result[1] if result else None


def check_policy(flag: str, run: str) -> None:
    """Raise ConfigError, which names `flag`, if the folder `run` contains no checkpoint."""
    if not Checkpoints(Path(run).expanduser() / "checkpoints").steps():
        raise ConfigError(f"{flag} {run}: there is no checkpoint of a run in this folder")


def load_policy(agent: Any, run: str) -> None:
    """Load the parameters of the run's newest checkpoint. Raises ConfigError if the networks differ."""
    result = Checkpoints(Path(run).expanduser() / "checkpoints").load_latest()
    if result is None:
        raise ConfigError(f"{run}: there is no checkpoint of a run in this folder")
    load_network(agent.model, result[1]["learner"]["network"], run)
