"""The best network of a run, by its evaluations (Nair et al. 2015, section 5.2: kept for the final evaluation)."""

import math
from pathlib import Path
from typing import Any

from torch import Tensor

from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.runners.evaluation import Evaluation


def agent_state(agent: dict[str, Any], network: dict[str, Tensor]) -> dict[str, Any]:
    """Return what `load_agent` needs of a learner's state, without the optimizer and a replay.

    agent: the agent's `state_dict()`. network: its network's tensors by name.
    """
    return {"algo": {"agent": agent}, "network": network}


class BestAgent:
    """Keeps the network whose evaluation had the highest mean score so far, in the folder `best` of a run.

    It is written like a checkpoint: atomically, synced, and verified when it is read. The first of equal scores stays.
    The score is part of it, so a resumed run goes on from the best of before, also if that was after the checkpoint
    that the run is resumed from. Only one process may write.
    """

    def __init__(self, run: Path):
        # Numbered in the order in which they were best: a resumed run's best may have fewer env steps than the last.
        self._kept = Checkpoints(run / "best" / "checkpoints", keep=1)
        self._score: float | None = None

    @property
    def score(self) -> float:
        """Mean score of the best evaluation; -inf before the first one. ConfigError if the file is damaged."""
        if self._score is None:
            found = self.load()
            self._score = -math.inf if found is None else float(found["evaluation"]["score_mean"])
        return self._score

    def note(self, env_steps: int, evaluation: Evaluation, state: dict[str, Any]) -> bool:
        """Keep a network if its evaluation is the best so far; returns whether it is.

        state: as `agent_state` returns it. RunError if the disk is full.
        """
        if not evaluation.mean > self.score:  # nor NaN, of no episode
            return False
        self._kept.clean()  # of an interrupted write
        number = max(self._kept.steps(), default=0) + 1
        self._kept.save(number, {"env_steps": env_steps, "evaluation": evaluation.to_dict(), "learner": state})
        self._score = evaluation.mean
        return True

    def load(self) -> dict[str, Any] | None:
        """Read and verify the best network, with env_steps, evaluation and learner; None if there is none yet.

        ConfigError if it is damaged.
        """
        found = self._kept.load_latest()
        return found[1] if found else None
