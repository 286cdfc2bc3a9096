"""With --init, training begins with the network of another run or model."""

import json
from importlib.util import find_spec

import pytest
import torch

import accel_rl
from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.cli.main import main
from accel_rl.training.initial_network import FILE

SMALL = {"envs": 4, "horizon": 8, "engine": "in-process", "decorrelation_steps": 0, "evaluation__interval": 0}


def run_of(folder, algorithm="ppo", env="CartPole-v1", **values):
    return accel_rl.train(algorithm, env=env, run_dir=folder, **{"env_steps": 64, **SMALL, **values})


def network(run) -> dict[str, torch.Tensor]:
    return Checkpoints(run.path / "checkpoints").load_latest()[1]["learner"]["network"]


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory):
    return run_of(tmp_path_factory.mktemp("init") / "cartpole", minibatch=32, epochs=1)


def begun(folder, **values):
    """Return the network of a run's first checkpoint, which is the initial network: the learning rate is nearly 0."""
    return network(run_of(folder, **{"learning_rate": 1e-30, **values}))


def test_all_tensors_are_copied_by_name(tmp_path, cartpole, capfd):
    got, want = begun(tmp_path / "run", init=cartpole), network(cartpole)
    assert all(torch.equal(got[name], want[name]) for name in want)
    out = capfd.readouterr().out
    assert f"12 of 12 tensors are copied from {cartpole.path} (ppo on CartPole-v1, 64 env steps)" in out
    assert "  copied          heads.policy: weight [2, 64], bias [2]" in out and "as initialised" not in out
    assert json.loads((tmp_path / "run" / "config.json").read_text())["init"] == str(cartpole.path)
    assert "12 of 12 tensors" in (tmp_path / "run" / "events.log").read_text()


def test_other_actions_leave_out_the_head(tmp_path, cartpole, capfd):
    got, want = begun(tmp_path / "run", env="Acrobot-v1", init=cartpole), network(cartpole)
    fits = [name for name in want if name.startswith(("body.layers.2", "value_body.layers.2", "heads.value"))]
    assert len(fits) == 6 and all(torch.equal(got[name], want[name]) for name in fits)
    out = capfd.readouterr().out
    assert "  as initialised  heads.policy: weight [3, 64] ([2, 64] in the other network), bias [3] ([2] in" in out
    assert "  as initialised  body.layers.0: weight [64, 6] ([64, 4] in the other network), bias [64]\n" in out


def test_only_the_body(tmp_path, cartpole, capfd):
    got, want = begun(tmp_path / "run", init=cartpole, init_only="body"), network(cartpole)
    assert all(torch.equal(got[n], want[n]) == n.startswith("body.") for n in want if n.endswith("weight"))
    assert (
        "  as initialised  heads.policy: weight [2, 64] (not in body), bias [2] (not in body)" in capfd.readouterr().out
    )


def test_a_model_and_another_algorithm(tmp_path, cartpole):
    model = cartpole.export(tmp_path / "model")
    got, want = begun(tmp_path / "a2c", algorithm="a2c", init=model.path), network(cartpole)
    assert all(torch.equal(got[name], want[name]) for name in want)


def test_the_target_network_begins_as_a_copy(tmp_path):
    values = {"replay__size": 1_000, "replay__start": 16, "learning_rate": 1e-30}
    first = run_of(tmp_path / "one", "dqn", **values, seed=3)
    second = run_of(tmp_path / "two", "dqn", **values, init=first)
    _, state = Checkpoints(second.path / "checkpoints").load_latest()
    target, want = state["learner"]["algo"]["target"]["network"], network(first)
    assert all(torch.equal(target[name], want[name]) for name in want)


@pytest.mark.slow
@pytest.mark.parametrize("update", ["all-reduce", "async"])
def test_two_ranks(tmp_path, cartpole, update):
    options = ["--init", str(cartpole.path), "--ranks", "2", "--update", update, "--envs", "4", "--horizon", "8"]
    options += ["--learning-rate", "1e-30", "--engine", "in-process", "--decorrelation-steps", "0"]
    folder = tmp_path / "run"
    command = ["train", "a2c", "--env", "CartPole-v1", "--env-steps", "64", "--evaluation.interval", "0", *options]
    assert main([*command, "--run-dir", str(folder)]) == 0
    want = network(cartpole)
    for path in (folder, folder / "ranks/1"):
        got = Checkpoints(path / "checkpoints").load_latest()[1]["learner"]["network"]
        assert all(torch.equal(got[name], want[name]) for name in want)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed (extra cluster)")
def test_gorila(tmp_path):
    values = {"replay__size": 1_000, "replay__start": 16}
    first = run_of(tmp_path / "one", "dqn", **values, seed=3)
    options = ["--init", str(first.path), "--learning-rate", "1e-30", "--envs", "4", "--engine", "in-process"]
    options += ["--replay.size", "1000", "--replay.start", "100", "--gorila.bundles", "1", "--evaluation.interval", "0"]
    command = ["train", "dqn", "--env", "CartPole-v1", "--cluster", "gorila", "--env-steps", "200", *options]
    assert main([*command, "--run-dir", str(tmp_path / "run")]) == 0
    _, state = Checkpoints(tmp_path / "run" / "checkpoints").load_latest()
    want = network(first)
    assert all(torch.equal(state["learner"]["network"][name], want[name]) for name in want)


def test_a_resumed_run_does_not_need_the_other_run(tmp_path, cartpole):
    run = run_of(tmp_path / "run", init=cartpole, minibatch=32, epochs=1)
    values = json.loads((run.path / "config.json").read_text())
    (run.path / "config.json").write_text(json.dumps({**values, "init": str(tmp_path / "gone")}))
    assert (run.path / FILE).exists()
    assert run.resume(env_steps=128).result.env_steps == 128


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (["--init", "nowhere"], "nowhere holds no run (no config.json)"),
        (["--init", "suite/ppo-chess"], "--init suite/ppo-chess: the suite has no such agent"),
        (
            ["--init", "RUN", "--init-only", "bodi"],
            "--init-only bodi: the network has body, value_body, heads; nearest: body",
        ),
        (["--init", "RUN", "--env", "tests.api.small_envs:Pixels"], "no layer fits, such as body."),
    ],
)
def test_a_mistake_is_one_line_before_anything_starts(tmp_path, monkeypatch, cartpole, capsys, values, line):
    monkeypatch.chdir(tmp_path)
    values = [str(cartpole.path) if v == "RUN" else v for v in values]
    argv = ["train", "ppo", "--env", "CartPole-v1", *values, "--run-dir", str(tmp_path / "run")]
    assert main(argv) == 2, "a run has begun"
    err = capsys.readouterr().err
    assert line in err and err.count("\n") == 1 and not (tmp_path / "run").exists()
