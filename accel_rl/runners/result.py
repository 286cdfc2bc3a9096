"""The result of a run."""

from dataclasses import dataclass, fields
from typing import Any

from accel_rl.runners.evaluation import Evaluation


@dataclass(slots=True)
class Result:
    """The result of a run."""

    env_steps: int
    score: float  # online, over the last episodes
    evaluation: Evaluation | None
    exit_code: int  # 0, or 128 + the signal that stopped the run
    wall_s: float

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain JSON."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {**values, "evaluation": None if self.evaluation is None else self.evaluation.to_dict()}

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> "Result":
        """The inverse of `to_dict`."""
        e = d["evaluation"]
        evaluation = Evaluation(tuple(e["scores"]), tuple(e["lengths"]), e["protocol"]) if e else None
        return cls(**{**d, "evaluation": evaluation})
