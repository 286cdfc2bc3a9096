"""Metrics that an algorithm reports by name at each update."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from accel_rl.metrics.update_metrics import COLUMNS, UpdateMetrics
from accel_rl.text.errors import ConfigError


def test_numbers_and_scalars() -> None:
    metrics = UpdateMetrics.of({"a": torch.tensor(1.5), "mine": 0.5, "one": torch.tensor([2.0])})
    assert metrics.means() == {"a": 1.5, "mine": 0.5, "one": 2.0}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_is_not_replaced(name: str) -> None:
    with pytest.raises(ConfigError, match=f"metric '{name}': a row has a column of this name"):
        UpdateMetrics.of({name: torch.tensor(-7.0)})


def test_what_is_no_number_is_named() -> None:
    with pytest.raises(ConfigError, match=r"metric 'mine' has the shape \[3\]"):
        UpdateMetrics.of({"mine": torch.zeros(3)})
    with pytest.raises(ConfigError, match="metric 'mine' is str"):
        UpdateMetrics.of({"mine": "text"})  # type: ignore[dict-item]


@pytest.mark.parametrize("name", ["info/mine", "secondary/loss"])
def test_a_column_of_an_environment_or_a_second_learner_is_not_replaced(name: str) -> None:
    with pytest.raises(ConfigError, match=f"metric '{name}': a row has a column of this name"):
        UpdateMetrics.of({name: 1.0})


def test_scalars_of_numpy_are_numbers() -> None:
    values = {"f": np.float32(0.5), "i": np.int64(3), "b": np.bool_(True), "fraction": Fraction(1, 4)}
    assert UpdateMetrics.of(values).means() == {"f": 0.5, "i": 3.0, "b": 1.0, "fraction": 0.25}  # type: ignore[arg-type]
