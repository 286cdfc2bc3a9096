"""Optimizers of torch.optim on the flat parameter vector: steps equal torch's, and skipped updates change nothing."""

import pytest
import torch

import accel_rl
from accel_rl.cli.main import main
from accel_rl.optim.optimizers import check_optimizer, make_optimizer
from accel_rl.optim.torch_optimizer import TorchOptimizer
from accel_rl.text.errors import ConfigError

CLASSES = [
    (torch.optim.RAdam, {"eps": 1e-6}), (torch.optim.NAdam, {}), (torch.optim.Adamax, {}), (torch.optim.AdamW, {}),
    (torch.optim.SGD, {"momentum": 0.9}), (torch.optim.Adagrad, {"initial_accumulator_value": 0.1}),
]  # fmt: skip


@pytest.mark.parametrize(("cls", "options"), CLASSES, ids=lambda x: x.__name__ if isinstance(x, type) else "")
def test_steps_are_torchs_also_after_a_reload(cls, options):
    start = torch.randn(20)
    theirs = torch.nn.Parameter(start.clone())
    torchs, ours, data = cls([theirs], lr=0.1, **options), TorchOptimizer(cls, 20, **options), start.clone()
    for i in range(8):
        grad = torch.randn(20)
        theirs.grad = grad.clone()
        torchs.param_groups[0]["lr"] = 0.1 / (i + 1)
        torchs.step()
        ours.step(data, grad, 0.1 / (i + 1))
        torch.testing.assert_close(data, theirs.detach(), rtol=0, atol=0)
        if i == 3:
            state = {n: x.clone() if isinstance(x, torch.Tensor) else x for n, x in ours.state_dict().items()}
            ours = TorchOptimizer(cls, 20, **options)
            ours.load_state_dict(state)


def test_a_skipped_update_changes_nothing(simulated_gpu):
    device = "sim:0"
    rate = torch.full((), 0.1, device=device)
    data, grad = torch.ones(5, device=device), torch.ones(5, device=device)
    optimizer = TorchOptimizer(torch.optim.RAdam, 5, device)
    optimizer.step(data, grad, rate, torch.ones((), dtype=torch.bool, device=device))
    before = data.cpu(), optimizer.state_dict()["step"]
    with simulated_gpu.counting() as waits:
        optimizer.step(data, torch.zeros_like(grad), rate, torch.zeros((), dtype=torch.bool, device=device))
    assert not waits and torch.equal(data.cpu(), before[0]) and optimizer.state_dict()["step"] == before[1]


def test_an_optimizer_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="LBFGS"):
        TorchOptimizer(torch.optim.LBFGS, 5)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("torch:AdamX", "--algo.optimizer torch:AdamX: torch.optim has ASGD, "),
        ("torch:AdamW(wd=1)", "--algo.optimizer torch:AdamW(wd=1): AdamW has the options betas, eps, weight_decay"),
        ("torch:AdamW(0.1)", "--algo.optimizer torch: AdamW(0.1): must be the name of a class of torch.optim or"),
        ("torch:LBFGS", "--algo.optimizer torch:LBFGS: LBFGS: torch.optim optimizers with a state"),
        ("adma", "--algo.optimizer adma: must be one of adam, adam-epsilon-hat, radam, rmsprop, "),
    ],
)
def test_a_mistake_in_a_name_is_one_line(name, line):
    with pytest.raises(ConfigError) as e:
        check_optimizer(name)
    assert str(e.value).startswith(line) and "\n" not in str(e.value)


def test_a_name_has_options_and_the_algorithms_epsilon():
    optimizer = make_optimizer("torch:AdamW(weight_decay=0.5)", 3, alpha=0.0, epsilon=1e-3)
    assert (optimizer._group["weight_decay"], optimizer._group["eps"]) == (0.5, 1e-3)
    optimizer = make_optimizer("torch:AdamW(eps=1e-6)", 3, alpha=0.0, epsilon=1e-3)
    assert optimizer._group["eps"] == 1e-6


@pytest.mark.parametrize("name", ["torch:SGD(momentum=0.9)", "torch:AdamW"])
def test_all_state_exists_before_the_first_step(name):
    """Asynchronous ranks and parameter servers share only the state that an optimizer has before its first step."""
    optimizer, data = make_optimizer(name, 3, alpha=0.0, epsilon=1e-8), torch.zeros(3)
    before = set(optimizer.state_dict())
    optimizer.step(data, torch.ones(3), 0.1)
    assert set(optimizer.state_dict()) == before != set()


def test_a_resumed_run_equals_the_uninterrupted_one(tmp_path):
    values = {"env": "CartPole-v1", "envs": 4, "engine": "in-process", "env_steps": 160, "log__interval": 40}
    values |= {"evaluation__interval": 0, "decorrelation_steps": 0, "optimizer": "torch:SGD(momentum=0.9)"}
    complete = accel_rl.train("a2c", **values, run_dir=tmp_path / "one")
    begun = accel_rl.train("a2c", **{**values, "env_steps": 80}, run_dir=tmp_path / "two")
    assert (begun.resume(env_steps=160).metrics["loss"] == complete.metrics["loss"]).all()
    assert len(complete.metrics["loss"]) == 4


@pytest.mark.slow
@pytest.mark.parametrize("update", ["all-reduce", "async"])
def test_two_ranks(tmp_path, update):
    argv = ["train", "a2c", "--env", "CartPole-v1", "--env-steps", "400", "--ranks", "2", "--update", update]
    argv += ["--engine", "in-process", "--evaluation.interval", "0", "--optimizer", "torch:SGD(momentum=0.9)"]
    assert main([*argv, "--run-dir", str(tmp_path / "run")]) == 0
