"""Which parameters and buffers of a network are saved, which saved states are refused, and copies of networks."""

import pytest
import torch
from torch import nn

from accel_rl.data.spec import EnvSpec
from accel_rl.models.network_state import (
    buffers_kept,
    check_parameters,
    copy_network,
    has_modes,
    load_network,
    network_state,
    statistics,
    training_mode,
)
from accel_rl.optim.flat import FlatParameters
from accel_rl.settings.train import default_config
from accel_rl.text.errors import ConfigError
from accel_rl.training.learner import build_algorithm


def net() -> nn.Module:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    model[0].weight.requires_grad_(False)
    model[2].register_buffer("drawn", torch.rand(2), persistent=False)
    return model


def test_it_holds_frozen_parameters_and_persistent_buffers():
    state = network_state(net())
    assert list(state) == [
        *("0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var", "1.num_batches_tracked"),
        *("2.weight", "2.bias"),
    ]


def test_loading_is_by_name_and_into_the_same_memory():
    one, two = net(), net()
    for _ in range(3):
        one(torch.randn(5, 3))
    flat = FlatParameters(two)
    load_network(two, dict(reversed(network_state(one).items())), "it")
    assert all(torch.equal(network_state(one)[name], x) for name, x in network_state(two).items())
    assert torch.equal(flat.data, flat.vector(network_state(one))) and int(two[1].num_batches_tracked) == 3


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda s: s.pop("2.bias"), r"it has no '2.bias', which the network has \(\[2\] float32\)"),
        (lambda s: s.update(w=s.pop("2.weight")), "it has no '2.weight', which the network has"),
        (lambda s: s.update(extra=torch.zeros(1)), r"it has 'extra' \(\[1\] float32\), which the network has not"),
        (
            lambda s: s.update({"0.bias": torch.zeros(5)}),
            r"it has '0.bias' as \[5\] float32, the network has it as \[4\] float32",
        ),
        (
            lambda s: s.update({"1.num_batches_tracked": torch.zeros(())}),
            r"it has '1.num_batches_tracked' as \[\] float32, the network has it as \[\] int64",
        ),
    ],
)
def test_the_first_difference_is_named_and_nothing_is_copied(change, line):
    model, state = net(), {name: x.clone() + 1 for name, x in network_state(net()).items()}
    before = {name: x.clone() for name, x in network_state(model).items()}
    change(state)
    with pytest.raises(ConfigError, match=line) as e:
        load_network(model, state, "it")
    assert "\n" not in str(e.value)
    assert all(torch.equal(before[name], x) for name, x in network_state(model).items())


def test_state_that_is_no_tensor_is_refused():
    class Extra(nn.Linear):
        def get_extra_state(self):
            return {"calls": 3}

    with pytest.raises(ConfigError, match=r"'_extra_state' is a dict: keep it in a buffer"):
        network_state(Extra(1, 1))


def test_a_copy_has_the_statistics_too():
    one, two = net(), net()
    one(torch.randn(5, 3) + 2)
    drawn = two[2].drawn.clone()
    copy_network(one, two)
    assert all(torch.equal(network_state(one)[name], x) for name, x in network_state(two).items())
    assert torch.equal(two[2].drawn, drawn)


def test_what_changes_without_a_gradient():
    assert len(statistics(net())) == 3 and not statistics(nn.Linear(1, 1))


def test_networks_of_this_project_have_no_modes():
    for kind in ("a2c", "ppo", "dqn", "c51", "rainbow", "impala"):
        for shape, dtype, stack in (((84, 84), "uint8", 4), ((4,), "float32", 1)):
            config = default_config(kind)
            spec = EnvSpec("x", shape, dtype, n_actions=3, stack=stack)
            model = build_algorithm(config, spec, "cpu").agent.model
            assert not has_modes(model)
    assert has_modes(net())

    class Own(nn.Linear):
        pass

    assert has_modes(nn.Sequential(Own(1, 1))) and not has_modes(nn.Sequential(nn.Linear(1, 1), nn.Tanh()))


def test_train_mode_ends_with_the_updates():
    model = net().eval()
    with pytest.raises(ZeroDivisionError), training_mode(model):
        assert model[1].training
        raise ZeroDivisionError
    assert not model.training and not model[1].training


def test_buffers_are_put_back():
    model = net()
    before = {name: x.clone() for name, x in model.named_buffers()}
    with buffers_kept(model):
        model(torch.randn(5, 3) + 2)
        model[2].drawn = torch.ones(2)  # another tensor
    assert all(torch.equal(before[name], x) for name, x in model.named_buffers())


class Nothing(nn.Module):
    pass


@pytest.mark.parametrize(
    ("model", "line"),
    [
        (nn.Sequential(nn.LazyLinear(3)), "the network's '0.weight' has no shape yet: pass a batch through"),
        (nn.Sequential(nn.Linear(2, 3), nn.LazyBatchNorm1d(affine=False)), "the network's '1.running_mean' has no sh"),
        (nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2).double()), "the network's '1.weight' is float64: trained"),
        (nn.Linear(2, 3).half(), "the network's 'weight' is float16: trained parameters must be float32"),
        (nn.Linear(2, 3).requires_grad_(False), "the network has no parameter that is trained"),
        (Nothing(), "the network has no parameter that is trained"),
    ],
)
def test_networks_that_cannot_be_trained(model, line):
    with pytest.raises(ConfigError, match=line) as e:
        check_parameters(model)
    assert "\n" not in str(e.value)


def test_frozen_parameters_may_have_any_type():
    check_parameters(nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2).double().requires_grad_(False)))
