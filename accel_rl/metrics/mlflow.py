"""The sink `MLflow` writes the settings and the metrics of a run to MLflow (`pip install mlflow`)."""

import importlib.util
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_rl.files.durable_files import write_durably
from accel_rl.metrics.nested import flat
from accel_rl.metrics.sinks import Row, Sink
from accel_rl.metrics.tags import tag
from accel_rl.text.errors import ConfigError

MOST = 500  # MLflow accepts at most 500 characters as a parameter's value.


@dataclass
class MLflow(Sink):
    """The environment variable MLFLOW_TRACKING_URI names the MLflow server. A resumed run continues its MLflow run,
    whose id is stored in the file mlflow_id of the run folder."""

    experiment: str = "accel_rl"
    """Name of the MLflow experiment."""

    @classmethod
    def check_settings(cls, config: Any) -> None:
        if importlib.util.find_spec("mlflow") is None:
            raise ConfigError("--sink MLflow needs the package mlflow: pip install mlflow")

    def open(self, settings: dict[str, Any], folder: Path, env_steps: int) -> None:
        self._mlflow: Any = importlib.import_module("mlflow")
        file = folder / "mlflow_id"
        id = file.read_text().strip() if file.exists() else None
        self._mlflow.set_experiment(self.experiment)
        run = self._mlflow.start_run(run_id=id, run_name=folder.name)
        if id is None:
            write_durably(file, f"{run.info.run_id}\n".encode())
            self._mlflow.log_params({name: str(value)[:MOST] for name, value in flat(settings)})

    def write(self, row: Row) -> None:
        numbers = {tag(k): float(v) for k, v in row.items() if isinstance(v, int | float) and math.isfinite(v)}
        self._mlflow.log_metrics(numbers, step=int(row["env_steps"]))

    def close(self) -> None:
        self._mlflow.end_run()
