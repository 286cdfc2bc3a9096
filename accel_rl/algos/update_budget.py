"""The update budget counts the updates that are due, by the training intensity."""

from typing import Any


class UpdateBudget:
    """Each env step makes `intensity` transitions due, and each update trains on `batch_size` transitions. Training
    intensity is the average number of times that each transition is used (Stooke & Abbeel 2018, section 5)."""

    def __init__(self, intensity: float, batch_size: int):
        self.intensity = intensity
        self.batch_size = batch_size
        self.transitions = 0.0
        """Number of transitions that are due for training."""
        self.updates = 0
        """Number of updates made."""

    def add(self, env_steps: int) -> None:
        """Make the updates for `env_steps` env steps due, or cancel updates if the number is negative."""
        self.transitions += env_steps * self.intensity

    def set(self, updates: int) -> None:
        """Make exactly `updates` updates due, whatever number of steps was sampled."""
        self.transitions = float(updates * self.batch_size)

    def due(self) -> int:
        """Return the number of updates that are due."""
        return max(0, int(self.transitions // self.batch_size))

    def spend(self) -> None:
        self.transitions -= self.batch_size
        self.updates += 1

    def state_dict(self) -> dict[str, Any]:
        return {"transitions": self.transitions, "updates": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.transitions = state["transitions"]
        self.updates = state["updates"]
