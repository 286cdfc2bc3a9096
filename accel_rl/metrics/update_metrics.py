"""Sums of the metrics of updates, from which rows of metrics are computed."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real

import numpy as np
import torch
from torch import Tensor

from accel_rl.metrics.sinks import WALL_CLOCK
from accel_rl.text.errors import ConfigError

COLUMNS = (
    *(
        "env_steps",
        "updates",
        "episodes",
        "score",
        "score_std",
        "new_score",
        "length",
        "learning_rate",
        "skipped_updates",
    ),
    *("eval_score", "eval_score_std", "eval_episodes", "eval_steps"),
    *WALL_CLOCK,
)
"""`COLUMNS` lists the columns of a row that are not metrics of updates. A metric in `Loss.metrics` must not have the
name of one of these columns."""
PREFIXES = ("info/", "secondary/", "score/", "eval_score/")
"""Columns with a prefix in `PREFIXES` are not metrics of updates."""


@dataclass(frozen=True, slots=True, eq=False)
class UpdateMetrics:
    """Sums of scalars over several updates, on the learner's device until a row of metrics is written. `names` has M
    names, and `sums` is [M] float64."""

    names: tuple[str, ...]
    sums: Tensor
    updates: int

    @classmethod
    def of(cls, values: Mapping[str, Tensor | float]) -> "UpdateMetrics":
        """The metrics of one update. A metric is a Python number or a tensor [], and all tensors are on one device.
        Raises ConfigError for a value that is not a single number, or if a metric has the name of another column."""
        device = next((x.device for x in values.values() if isinstance(x, Tensor)), None)
        scalars = [_scalar(name, x, device) for name, x in values.items()]
        if len({x.dtype for x in scalars}) > 1:
            scalars = [x.double() for x in scalars]
        return cls(tuple(values), torch.stack(scalars).double(), 1)

    def prefixed(self, prefix: str) -> "UpdateMetrics":
        return UpdateMetrics(tuple(prefix + n for n in self.names), self.sums, self.updates) if prefix else self

    def means(self) -> dict[str, float]:
        """Synchronizes with a GPU."""
        return dict(zip(self.names, (self.sums / self.updates).tolist(), strict=True))


def _scalar(name: str, value: Tensor | float, device: torch.device | None) -> Tensor:
    """The metric as a tensor []. Raises ConfigError if another column has the same name, or if the value is not a
    scalar."""
    if name in COLUMNS or name.startswith(PREFIXES):
        raise ConfigError(f"metric {name!r}: a row has a column of this name; give the metric another name")
    if not isinstance(value, Tensor):
        if not isinstance(value, Real | np.bool_):
            raise ConfigError(f"metric {name!r} is {type(value).__name__}: must be a number, or a tensor with one")
        return torch.full((), float(value), dtype=torch.float64, device=device)
    if value.numel() != 1:
        raise ConfigError(f"metric {name!r} has the shape {list(value.shape)}: must be a number, or a tensor with one")
    return value.detach().reshape(())
