"""A target network is a copy of the online network, updated in intervals (Mnih et al. 2015)."""

import copy
from typing import Any, Literal

from torch import nn

from accel_rl.models.network_state import copy_network, load_network, network_state


class TargetNetwork:
    """Copies the online network's parameters and buffers every `interval` env steps or updates."""

    def __init__(self, online: nn.Module, interval: int, unit: Literal["env-steps", "updates"] = "env-steps"):
        self.online = online
        self.interval = interval
        self.unit = unit
        self.model: Any = copy.deepcopy(online).requires_grad_(False)
        self._intervals = 0  # If the unit is "updates", `_intervals` counts the intervals that have begun with a copy.

    def update(self) -> None:
        """Copy the online network to the target network."""
        copy_network(self.online, self.model)

    def after_env_steps(self, before: int, now: int) -> None:
        """Copy the online network if an interval ends between `before` and `now` env steps."""
        if self.unit == "env-steps" and now // self.interval > before // self.interval:
            self.update()

    def before_updates(self, updates: int, due: int) -> int:
        """Copy the online network if an interval begins after `updates` updates. Return how many of the `due` updates
        are in the interval."""
        if self.unit == "env-steps" or not due:
            return due
        begun, since = divmod(updates, self.interval)
        if begun + 1 != self._intervals:
            self.update()
            self._intervals = begun + 1
        return min(due, self.interval - since)

    def state_dict(self) -> dict[str, Any]:
        return {"network": network_state(self.model), "intervals": self._intervals}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        load_network(self.model, state["network"], "the checkpoint's target network")
        self._intervals = state["intervals"]
