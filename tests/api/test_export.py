"""Exported models act as the run's agent on another machine, as an ONNX file, and after a download from a hub."""

import contextlib
import importlib.util
import json
import os
import shutil

import numpy as np
import pytest
import torch

import accel_rl
from accel_rl import Run
from accel_rl.api import export, hub
from accel_rl.api.keywords import settings
from accel_rl.cli.main import main
from accel_rl.settings.resolved import resolve
from accel_rl.text.errors import ConfigError, RunError
from accel_rl.training.learner import Learner

CARTPOLE = {"env": "CartPole-v1", "envs": 4, "engine": "in-process", "evaluation__episodes": 2}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export") / "run"
    values = {"env_steps": 128, "horizon": 8, "evaluation__interval": 64, **CARTPOLE}
    return accel_rl.train("ppo", minibatch=16, **values, run_dir=folder)


@pytest.fixture(scope="module")
def model(run, tmp_path_factory):
    return run.export(tmp_path_factory.mktemp("models") / "ppo")


def test_a_model_plays_as_its_run(run, model):
    obs = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
    assert (model.load_agent(seed=3).act(obs) == run.load_agent(seed=3).act(obs)).all()
    assert model.evaluate(3, parallel=2).scores == run.evaluate(3, parallel=2).scores
    assert not (model.path / "checkpoints").exists() and model.config.run_dir == ""
    card = (model.path / "README.md").read_text()
    last = json.loads((run.path / "evaluations" / "000000000128.json").read_text())
    assert f"Score {last['score_mean']:.2f} +- {last['score_std']:.2f}" in card and "curve.png" in card
    assert "watch FOLDER` (after `pip install 'gymnasium[classic-control]'`)" in card


def test_the_best_network_and_that_of_a_checkpoint(run, tmp_path):
    steps = sorted(p.name for p in (run.path / "checkpoints").iterdir())
    first = run.export(tmp_path / "first", checkpoint=str(run.path / "checkpoints" / steps[0]))
    assert json.loads((first.path / "model.json").read_text())["env_steps"] == int(steps[0])
    best = run.export(tmp_path / "best", best=True)
    means = [json.loads(f.read_text())["score_mean"] for f in (run.path / "evaluations").iterdir()]
    assert json.loads((best.path / "model.json").read_text())["evaluation"]["score_mean"] == max(means)
    again = best.export(tmp_path / "again")
    for name in ("model.safetensors", "model.json"):
        assert (again.path / name).read_bytes() == (best.path / name).read_bytes()


def test_an_agent_whose_state_has_a_tensor(tmp_path):
    run = accel_rl.train(
        "dqn", epsilon_final=0.1, env_steps=160, replay__size=1_000, replay__start=64, evaluation__interval=0,
        **CARTPOLE, run_dir=tmp_path / "run",
    )  # fmt: skip
    model = run.export(tmp_path / "model")
    obs = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    assert (model.agent.act(obs) == run.agent.act(obs)).all()
    assert "not evaluated" not in (model.path / "README.md").read_text()


def test_a_model_in_float16_has_half_of_the_size_and_acts_as_the_run(run, model, tmp_path):
    half = run.export(tmp_path / "half", float16=True)
    sizes = [(m.path / "model.safetensors").stat().st_size for m in (half, model)]
    assert sizes[0] < 0.6 * sizes[1]
    numbers = zip(half.agent.agent.model.parameters(), run.agent.agent.model.parameters(), strict=True)
    for x, y in numbers:
        assert x.dtype == torch.float32 and torch.equal(x, y.half().float())
    assert " of float16; " in (half.path / "README.md").read_text()
    again = half.export(tmp_path / "again", float16=True)
    assert (again.path / "model.safetensors").read_bytes() == (half.path / "model.safetensors").read_bytes()


def test_a_card_has_the_revision_of_the_code(run, model):
    revision = json.loads((run.path / "versions.json").read_text())["git"]
    assert f"(revision {revision}), seed 0." in (model.path / "README.md").read_text()


def test_a_card_lists_the_launches_of_its_run(run, tmp_path):
    """The run in this test was resumed on another machine at 64 of 128 env steps, with accel_rl from a wheel instead of
    Git."""
    folder = shutil.copytree(run.path, tmp_path / "moved")
    (first,) = json.loads((folder / "launches.json").read_text())
    machine = {"cpu": "A CPU", "gpus": ["A GPU"], "cores": 4}
    versions = first["versions"] | {"git": "0123abc", "torch": "2.11.0"}
    later = first | {"env_steps": 64, "gpus": [], "git": None}
    later["versions"] = first["versions"] | {"git": None, "torch": "2.13.0+cpu"}
    (folder / "launches.json").write_text(
        json.dumps([first | machine | {"versions": versions}, later, later | {"env_steps": 128}])
    )
    model = Run.load(folder).export(tmp_path / "model")
    lines = (model.path / "README.md").read_text().splitlines()
    assert "Trained for 128 env steps in 2 launches, seed 0." in lines
    version = accel_rl.__version__
    assert f"| 0 to 64 | {version} 0123abc | 2.11.0 | A CPU, A GPU | 4 |" in lines
    assert f"| 64 to 128 | {version} | 2.13.0+cpu | {first['cpu']} | {first['cores']} |" in lines
    exported = (model.path / "launches.json").read_text()
    assert [x["env_steps"] for x in json.loads(exported)] == [0, 64]
    assert not [name for name in ("host", "folder", "command", "pid") if f'"{name}"' in exported]
    again = model.export(tmp_path / "again")
    assert (again.path / "README.md").read_text().splitlines() == lines


def test_a_model_without_launches_has_no_such_table(run, tmp_path):
    folder = shutil.copytree(run.path, tmp_path / "old")
    (folder / "launches.json").unlink()
    model = Run.load(folder).export(tmp_path / "model")
    assert "| machine |" not in (model.path / "README.md").read_text()
    assert not (model.path / "launches.json").exists()


def test_a_model_is_not_resumed_and_a_damaged_one_not_read(model, tmp_path, capsys):
    assert main(["resume", str(model.path)]) == 2
    assert "exported model" in capsys.readouterr().err
    damaged = tmp_path / "damaged"
    shutil.copytree(model.path, damaged)
    (damaged / "model.safetensors").write_bytes((damaged / "model.safetensors").read_bytes()[:200])
    assert main(["evaluate", str(damaged)]) == 2
    assert "model.safetensors is not readable" in capsys.readouterr().err
    (damaged / "model.json").write_text('{"format": "accel_rl model 0"}')
    assert main(["evaluate", str(damaged)]) == 2
    assert "accel_rl model 0" in capsys.readouterr().err


def test_the_command_exports_and_evaluates(run, rendered, capsys):
    assert main(["export", str(run.path)]) == 0
    out = capsys.readouterr().out
    assert f"{run.path / 'model'}: ppo at 128 env steps, score" in out and f"accel-rl evaluate {run.path}" in out
    assert (run.path / "model/curve.png").read_bytes()[1:4] == b"PNG"
    assert main(["evaluate", str(run.path / "model"), "--episodes", "2"]) == 0
    assert main(["export", str(run.path)]) == 2
    assert "not an empty folder" in capsys.readouterr().err
    assert main(["export", str(run.path / "nowhere")]) == 2


@pytest.mark.needs("onnxruntime", "onnxscript")
@pytest.mark.parametrize(
    ("algorithm", "values"),
    [
        ("ppo", {"env": "CartPole-v1"}),
        ("a2c", {"game": "pong", "network": "nature"}),
        ("dqn", {"game": "breakout", "dueling": True}),
        ("rainbow", {"game": "pong", "noisy": True}),
    ],
)
def test_onnx_computes_the_same(algorithm, values, tmp_path):
    import onnxruntime

    config = resolve(settings(algorithm, values.pop("env", None), values))
    spec = config.spec
    agent = Learner(config, spec, "cpu", seed=1).algo.agent.evaluating(True)
    with torch.no_grad():  # Add noise: initial weights make all outputs nearly 0.
        for p in agent.model.parameters():
            p.add_(torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel())) * 0.02)
    export.check_onnx(agent)
    export.write_onnx(agent, spec.obs_shape, getattr(torch, spec.frame_dtype), tmp_path / "policy.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "policy.onnx"), providers=["CPUExecutionProvider"])
    for n in (1, 5):
        draw = np.random.default_rng(n)
        shape = (n, *spec.obs_shape)
        obs = draw.integers(0, 256, shape, np.uint8) if spec.is_image else draw.normal(size=shape).astype(np.float32)
        (found,) = session.run(["preferences"], {"obs": obs})
        with torch.no_grad():
            expected = export.Preferences(agent)(torch.from_numpy(obs))
        assert expected.std() > 0.01
        np.testing.assert_allclose(found, expected.numpy(), atol=1e-5, rtol=1e-5)
        action, _ = agent.act(torch.from_numpy(obs), torch.zeros(n), None)
        assert found.argmax(-1).tolist() == action.tolist()


def test_what_onnx_cannot_hold_is_one_line(tmp_path, monkeypatch, capsys):
    run = accel_rl.train("a2c", lstm=8, horizon=8, env_steps=64, **CARTPOLE, run_dir=tmp_path / "run")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert main(["export", str(run.path), "--onnx"]) == 2
    assert "LSTM is not supported" in capsys.readouterr().err and not (run.path / "model").exists()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["export", str(run.path), "--onnx"]) == 2
    assert "pip install 'accel_rl[onnx]'" in capsys.readouterr().err


def test_a_model_goes_to_a_folder_and_back(model, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["push", str(model.path), "./shared/ppo"]) == 0
    assert main(["pull", "./shared/ppo", "--out", "mine"]) == 0
    assert "accel-rl evaluate mine" in capsys.readouterr().out
    assert Run.load("mine").evaluate(2).scores == model.evaluate(2).scores
    assert main(["pull", "./shared/ppo", "--out", "mine"]) == 2
    assert main(["pull", "./nowhere"]) == 2


def test_bad_names_and_runs_are_one_line(run, model, capsys):
    for argv, words in (
        (["push", str(model.path), "ppo"], "NAME/MODEL"),
        (["push", str(model.path), "a/b/c"], "NAME/MODEL"),
        (["push", str(run.path), "a/b"], "accel-rl export"),
        (["push", str(model.path)], "NAME/MODEL"),
        (["pull"], "NAME/MODEL"),
    ):
        assert main(argv) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert words in line


@pytest.mark.needs("huggingface_hub")
def test_a_hub_reads_the_card(model):
    from huggingface_hub import ModelCard

    data = ModelCard.load(model.path / "README.md").data
    (result,) = data.eval_results
    evaluation = json.loads((model.path / "model.json").read_text())["evaluation"]
    assert result.metric_value == f"{evaluation['score_mean']:.2f} +/- {evaluation['score_std']:.2f}"
    named = (data.library_name, data.model_name, result.task_type, result.dataset_name, result.metric_type)
    assert named == ("accel_rl", "ppo", "reinforcement-learning", "CartPole-v1", "mean_reward")
    assert data.tags == ["reinforcement-learning", "ppo", "CartPole-v1"]


@pytest.mark.needs("huggingface_hub")
def test_a_hub_that_is_not_there_is_one_line(model, tmp_path, monkeypatch):
    import huggingface_hub

    nobody = huggingface_hub.HfApi(endpoint="http://127.0.0.1:9")
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: nobody)
    with pytest.raises(RunError, match=r"the hub did not take a/b: .*refused"):
        hub.push(model.path, "a/b")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", nobody.snapshot_download)
    with pytest.raises(RunError, match="a/b could not be downloaded"):
        hub.pull("a/b", tmp_path / "pulled")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"accel_rl\[hub\]"):
        hub.push(model.path, "a/b")


def test_links_of_a_foreign_folder_do_not_become_a_model(run, model, tmp_path, capsys):
    """If symbolic links were followed, a file to which one points, such as a private key, would be published."""
    key, foreign = tmp_path / "id_rsa", tmp_path / "foreign"
    key.write_text("PRIVATE KEY")
    for source, name, commands in (
        (
            model.path,
            "docs/extra",
            (["push", str(foreign), "./out"], ["push", str(foreign), "a/b"], ["pull", "./foreign"]),
        ),
        (run.path, "protocol.json", (["export", str(foreign)],)),
    ):
        shutil.copytree(source, foreign)
        (foreign / name).unlink(missing_ok=True)
        (foreign / name).parent.mkdir(exist_ok=True)
        (foreign / name).symlink_to(key)
        for argv in commands:
            with contextlib.chdir(tmp_path):
                assert main([*argv, *(["--out", "./out"] if argv[0] != "push" else [])]) == 2
            (line,) = capsys.readouterr().err.splitlines()
            assert f"{name} is a link" in line and not (tmp_path / "out").exists()
        shutil.rmtree(foreign)
    shutil.copytree(model.path, foreign)
    os.mkfifo(foreign / "pipe")
    assert main(["pull", str(foreign), "--out", str(tmp_path / "out")]) == 2
    assert "neither a file nor a folder" in capsys.readouterr().err
