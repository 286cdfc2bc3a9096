"""Impossible settings of A2C. Its equations and step sizes: test_options.py."""

import pytest

from accel_rl.algos.a2c import A2CConfig
from accel_rl.text.errors import ConfigError


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("learning_rate", -1e-3),
        ("learning_rate", 0.0),
        ("gamma", 1.5),
        ("gae_lambda", -0.1),
        ("entropy_coefficient", -1.0),
        ("clip_grad_norm", -1.0),
        ("rmsprop_alpha", 1.0),
        ("optimizer_eps", 0.0),
        ("learning_rate", float("nan")),
    ],
)
def test_impossible_values_are_named(field, value):
    with pytest.raises(ConfigError) as e:
        A2CConfig(**{field: value}).check()
    assert field.replace("_", "-") in str(e.value) and str(value) in str(e.value) and "\n" not in str(e.value)
