"""Saved flat parameter vectors are reordered if a network has its parameters in another order, or else refused."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from accel_rl.optim.flat import FlatParameters
from accel_rl.settings.resolved import resolve
from accel_rl.settings.train import default_config
from accel_rl.training.learner import build_algorithm
from tests.env_settings import env_of


def flat(*names: str, width: int = 2) -> FlatParameters:
    return FlatParameters(nn.ModuleDict({name: nn.Linear(3 if name == "a" else 2, width) for name in names}))


def test_a_vector_and_its_tensors_by_name():
    x = flat("a", "b")
    vector = torch.arange(float(len(x.data)))
    named = x.by_name(vector)
    assert {name: list(t.shape) for name, t in named.items()} == dict(x.layout())
    assert torch.equal(x.vector(named), vector)


def test_another_order_of_the_same_parameters():
    one, two = flat("a", "b"), flat("b", "a")
    assert one.order(one.layout()) is None
    index = two.order(one.layout())
    vector = torch.randn(len(one.data))
    assert torch.equal(vector[index], two.vector(one.by_name(vector)))


@pytest.mark.parametrize(
    ("other", "line"),
    [
        (flat("a"), "other parameters: 'b.weight' is not trained there, of shape [2, 2] here"),
        (flat("a", "b", "c"), "other parameters: 'c.weight' is of shape [2, 2] there, not trained here"),
        (flat("a", "b", width=5), "other parameters: 'a.weight' is of shape [5, 3] there, of shape [2, 3] here"),
    ],
)
def test_other_parameters_are_refused(other, line):
    with pytest.raises(ValueError) as e:
        flat("a", "b").order(other.layout())
    assert str(e.value).endswith(line)


def test_a_shared_parameter_has_one_place_and_both_names():
    model = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.Linear(2, 2)})
    model["b"].weight = model["a"].weight
    x = FlatParameters(model)
    vector = torch.arange(float(len(x.data)))
    named = x.by_name(vector)
    assert named.keys() == model.state_dict().keys() and torch.equal(named["a.weight"], named["b.weight"])
    assert len(x.data) == 8 and torch.equal(x.vector(named), vector) and not x.untrained()


@pytest.mark.parametrize("algorithm", ["a2c", "c51", "rainbow"])
def test_matrices_begin_at_multiples_of_64_numbers(algorithm):
    """Without padding, the six biases of a dueling network's first head would misalign the second head's weights."""
    config = resolve(replace(default_config(algorithm), env=env_of(game="pong")))
    x = FlatParameters(build_algorithm(config, config.spec, "cpu").agent.model)
    assert all(part.start % 64 == 0 for name, part in x.layers() if (part.stop - part.start) % 64 == 0)
    assert sum(part.start % 64 != 0 for _, part in x.layers()) <= 4
