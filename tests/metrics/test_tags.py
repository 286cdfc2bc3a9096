"""Names of metrics in TensorBoard and Weights & Biases, and the MLflow sink."""

import sys
from types import SimpleNamespace

import pytest

import accel_rl
from accel_rl.metrics.mlflow import MLflow
from accel_rl.metrics.tags import TAGS, tag
from accel_rl.text.errors import ConfigError

SMALL = {"env": "CartPole-v1", "envs": 4, "engine": "in-process", "env_steps": 80, "evaluation__interval": 80}
SMALL |= {"decorrelation_steps": 0, "evaluation__episodes": 1}


def test_every_column_of_the_algorithms_has_a_tag(tmp_path):
    for algorithm in ("ppo", "impala", "dqn"):
        more = {"dqn": {"replay__start": 40, "replay__size": 200}, "impala": {"batches": 4}}.get(algorithm, {})
        run = accel_rl.train(algorithm, **SMALL, **more, run_dir=tmp_path / algorithm)
        names = set(run.metrics) - {"env_steps"}
        assert {name for name in names if tag(name).startswith("metrics/")} <= {"ratio"}


def test_tags_are_those_of_cleanrl():
    assert tag("score") == "charts/episodic_return" and tag("clipped") == "losses/clipfrac"
    assert tag("info/lives") == "info/lives" and tag("mine") == "metrics/mine"
    assert len(set(TAGS.values())) == len(TAGS)


class Service:
    """A fake MLflow, which records the calls of its functions."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        def call(*args, **kwargs):
            self.calls.append((name, args, kwargs))
            return SimpleNamespace(info=SimpleNamespace(run_id="abc"))

        return call

    def named(self, name):
        return [(args, kwargs) for n, args, kwargs in self.calls if n == name]


def test_mlflow_gets_settings_and_metrics_and_continues_its_run(tmp_path, monkeypatch):
    service = Service()
    monkeypatch.setitem(sys.modules, "mlflow", service)
    run = accel_rl.train("a2c", **SMALL, run_dir=tmp_path / "run", sinks=[MLflow(experiment="mine")])
    run.resume(env_steps=160)
    assert run.config.sink == ("accel_rl.metrics.mlflow:MLflow(experiment='mine')",)
    (((params,), _),) = service.named("log_params")
    assert params["algorithm"] == "a2c" and params["algo.gamma"] == "0.99"
    assert [kwargs["run_id"] for _, kwargs in service.named("start_run")] == [None, "abc"]
    last, step = service.named("log_metrics")[-1]
    assert step["step"] == 160 and last[0]["charts/updates"] == 8 and len(service.named("end_run")) == 2


def test_a_missing_mlflow_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ConfigError, match="--sink MLflow needs the package mlflow: pip install mlflow"):
        accel_rl.train("a2c", **SMALL, run_dir=tmp_path / "run", sinks=["MLflow"])
    assert not (tmp_path / "run").exists()
