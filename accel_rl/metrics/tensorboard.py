"""Writes TensorBoard events in the run folder (extra: tensorboard)."""

import math
from pathlib import Path
from typing import Any

from accel_rl.metrics.sinks import Row, Sink
from accel_rl.system.errors import ConfigError

INSTALL = "pip install 'accel_rl[tensorboard]'"


def check_tensorboard() -> None:
    """Raise ConfigError if the extra `tensorboard` is missing."""
    try:
        import tensorboard  # noqa: F401
    except ImportError as e:
        raise ConfigError(f"--log.tensorboard needs the extra tensorboard: {INSTALL}") from e


class TensorBoardSink:
    def __init__(self, folder: Path, env_steps: int):
        from torch.utils.tensorboard import SummaryWriter

        # purge_step hides rows after the checkpoint, since the resumed run repeats these steps.
        self._writer = SummaryWriter(str(folder), purge_step=env_steps + 1)

    def write(self, row: Row) -> None:
        step = int(row["env_steps"])
        for name, value in row.items():
            if isinstance(value, int | float) and math.isfinite(value) and name != "env_steps":
                self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def tensorboard_sink(config: Any, folder: Path, env_steps: int) -> list[Sink]:
    return [TensorBoardSink(folder / "tensorboard", env_steps)] if config.log.tensorboard else []
