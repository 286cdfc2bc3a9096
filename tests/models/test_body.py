"""Any torch module of a user can be a network's body.

Fully connected bodies have the widths and activation of the settings.
"""

import pytest
import torch
from torch import nn

import accel_rl
from accel_rl.data.spec import EnvSpec
from accel_rl.models.body import body
from accel_rl.models.layers import RunningNorm
from accel_rl.settings.registry import ALGORITHMS, find_algorithm
from accel_rl.text.errors import ConfigError
from tests.marks import slow
from tests.models.users_networks import Pictures, Vectors

USERS = "tests.models.users_networks"
PICTURES = EnvSpec("pictures", (2, 12, 10), "uint8", 3, stack=2)
FLOATS = EnvSpec("floats", (12, 10), "float32", 3, stack=4)
VECTORS = EnvSpec("vectors", (5,), "float32", 3)
SMALL = {"r2d2": {"lstm": 8}, "qrdqn": {"quantiles": 4}}


def model_of(algorithm: str, spec: EnvSpec, **values) -> nn.Module:
    cls = find_algorithm(algorithm)
    return cls(cls.Config(**values, **SMALL.get(algorithm, {})), spec, T=5, B=2).agent.model


def widths(net: nn.Module) -> list[int]:
    """Return the numbers of outputs of all fully connected layers, in the order of registration."""
    return [m.out_features for m in net.modules() if isinstance(m, nn.Linear)]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_has_a_users_body(algorithm):
    for spec in (PICTURES, FLOATS):
        model = model_of(algorithm, spec, network=f"{USERS}:Pictures(channels=6)")
        assert isinstance(model.body.net, Pictures) and model.body.net.conv.weight.shape[:2] == (6, 4)
    model = model_of(algorithm, VECTORS, network=f"{USERS}:Vectors")
    assert isinstance(model.body.net, Vectors) and model.body.out_features == 32


def test_its_pictures_are_floats_up_to_one():
    net, features = body(PICTURES, f"{USERS}:Pictures")
    frames = torch.randint(256, (3, 2, 2, 12, 10), dtype=torch.uint8)
    assert features == 24
    assert torch.equal(net(frames), net.net(frames.flatten(1, 2) / 255))
    floats = torch.rand(3, 4, 12, 10)
    net, _ = body(FLOATS, f"{USERS}:Pictures")
    assert torch.equal(net(floats), net.net(floats))


def test_heads_are_linear_without_hidden_layers():
    model = model_of("dqn", VECTORS, network=f"{USERS}:Vectors", dueling=True)
    assert model.advantage.hidden is None and widths(model) == [32, 32, 3, 1]
    x = torch.randn(4, 5)
    features = model.body(x)
    advantage, value = (s.out(features) for s in (model.advantage, model.value))
    torch.testing.assert_close(model(x), value + advantage - advantage.mean(-1, keepdim=True))


@pytest.mark.parametrize(
    ("algorithm", "spec", "values", "expected"),
    [
        ("ppo", VECTORS, {}, [64, 64, 64, 64, 3, 1]),
        ("ppo", VECTORS, {"hidden": (7, 6, 4)}, [7, 6, 4, 7, 6, 4, 3, 1]),
        ("ppo", PICTURES, {"hidden": (7, 6)}, [7, 6, 3, 1]),
        ("ppo", PICTURES, {"network": f"{USERS}:Pictures", "hidden": (7,)}, [24, 7, 3, 1]),
        ("dqn", VECTORS, {}, [128, 128, 3]),
        ("dqn", VECTORS, {"hidden": (7,)}, [7, 3]),
        ("c51", VECTORS, {"hidden": (7, 6), "atoms": 2}, [7, 6, 6]),
        ("dqn", PICTURES, {"hidden": (7, 6), "dueling": True}, [7, 6, 3, 6, 1]),
        ("pqn", PICTURES, {"network": f"{USERS}:Pictures", "hidden": (7, 6)}, [24, 7, 6, 3]),
        ("r2d2", VECTORS, {"hidden": (7, 6), "dueling": False}, [7, 6, 3]),
    ],
)
def test_hidden_are_the_widths(algorithm, spec, values, expected):
    small = {"network": "data-efficient"} if spec is PICTURES else {}
    spec = EnvSpec("pictures", (84, 84), "uint8", 3, 4) if spec is PICTURES and "network" not in values else spec
    assert widths(model_of(algorithm, spec, **small | values)) == expected


@pytest.mark.parametrize(("name", "function"), [("elu", nn.ELU), ("silu", nn.SiLU), ("relu", nn.ReLU)])
def test_the_activation_is_that_of_all_fully_connected_layers(name, function):
    model = model_of("dqn", VECTORS, activation=name, hidden=(7, 6), layer_norm="after")
    one, norm, two = model.body.layers[0], model.body.layers[2], model.advantage.hidden
    x = torch.randn(4, 5)
    last = model.advantage.relu[1](function()(two(norm(function()(one(x))))))
    torch.testing.assert_close(model(x), model.advantage.out(last))


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("NoModule", "must be a class of modules"),
        ("RESULTS", "must be a class of modules"),
        ("Vektors", "nearest: Vectors"),
        ("WithoutShape", r"built as Class\(observation_shape\), WithoutShape\(\(5,\)\) raised TypeError"),
        ("Vectors(wide=3)", r"Vectors\(\(5,\), wide=3\) raised TypeError"),
        ("Vectors(3)", r"must be module:Class or module:Class\(name=value"),
        ("Pictures", r"raised RuntimeError"),
        ("Given(result='pair')", r"returned tuple: must be features, float32 \[2, F\]"),
        ("Given(result='one axis')", r"returned float32 \[10\]: must be"),
        ("Given(result='no features')", r"returned float32 \[2, 0\]: must be"),
        ("Given(result='float64')", r"returned float64 \[2, 5\]: must be"),
        ("Given(result='NaN')", "returned nan: must be finite"),
        ("Given(result='error')", r"its forward of float32 \[2, 5\] raised RuntimeError"),
    ],
)
def test_a_wrong_module_is_one_line(name, line):
    with pytest.raises(ConfigError, match=line) as e:
        body(VECTORS, f"{USERS}:{name}")
    assert "\n" not in str(e.value) and str(e.value).startswith(f"--algo.network {USERS}:{name}")


def test_running_norm():
    """RunningNorm normalizes a batch by the mean and deviation of all earlier batches. Batches in eval mode do not
    count."""
    torch.manual_seed(0)
    norm, batches = RunningNorm(3), [torch.randn(n, 3) * 5 + torch.tensor([1.0, -100.0, 0.0]) for n in (7, 20, 1, 300)]
    for k, x in enumerate(batches):
        seen = torch.cat(batches[:k]).double() if k else None
        mean, deviation = (seen.mean(0), seen.std(0, correction=0)) if k else (torch.zeros(3), torch.ones(3))
        wanted = ((x - mean) / deviation).clamp(-10, 10).float()
        torch.testing.assert_close(norm.eval()(x), wanted, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(norm.train()(x), wanted, rtol=1e-4, atol=1e-4)
    assert norm.count == 328 and float(norm(torch.full((1, 3), 1e9)).max()) == 10


REPLAY = {"replay__start": 100, "replay__size": 2_000}


@pytest.mark.parametrize(
    ("algorithm", "more"),
    [
        ("ppo", {"horizon": 32}),
        slow("dqn", REPLAY),
        slow("r2d2", {**REPLAY, "length": 8, "burn_in": 4, "period": 4, "batch_size": 4, "lstm": 8}),
    ],
)
def test_normalized_observations_are_kept(algorithm, more, tmp_path):
    """Exported models contain the mean and deviation of observations, which evaluations do not change."""
    run = accel_rl.train(
        algorithm, env="CartPole-v1", normalize=True, envs=4, engine="in-process", env_steps=1_600,
        evaluation__interval=800, evaluation__steps=100, run_dir=tmp_path / "run", **more,
    )  # fmt: skip
    state = run.load_agent().agent.model.state_dict()
    (mean,) = [x for name, x in state.items() if name.endswith("mean") and "value_body" not in name]
    (count,) = [x for name, x in state.items() if name.endswith("count") and "value_body" not in name]
    assert mean.abs().max() > 1e-3 and count > 100
    run.evaluate(2)
    exported = run.export(tmp_path / "model").load_agent().agent.model.state_dict()
    assert all(torch.equal(x, exported[name]) for name, x in state.items())
