"""A user's callbacks and sinks are called in every mode of training."""

import csv
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import accel_rl
from accel_rl import Callback, ConfigError, Run, RunError, SaveBest, Sink, StopAtScore, VideoEvery
from accel_rl.checkpoints.checkpoint import Checkpoints, load
from accel_rl.cli.main import main
from accel_rl.run.run_folder import RunFolder
from accel_rl.training.observers import spec_of
from accel_rl.training.stored_agents import BestAgent
from tests.integration.runs import rows, run
from tests.marks import slow

SMALL = {"env": "CartPole-v1", "envs": 4, "horizon": 8, "engine": "in-process", "minibatch": 16, "epochs": 1}
MODULE = "tests.training.test_callbacks"


@dataclass
class Calls(Callback):
    """A callback that writes each call of its methods to a file in the run folder."""

    name: str = "calls"

    def write(self, training, line):
        with open(training.path / self.name, "a") as f:
            f.write(f"{line}\n")

    def on_start(self, training):
        self.write(training, f"start {training.env_steps}")

    def on_rollout(self, training, rollout):
        self.write(training, f"rollout {rollout.env_steps}")
        training.log("reward_mean", rollout.reward.mean())

    def on_episode(self, training, episode):
        training.log("longest", episode.length)
        assert training.recent[-1][1] > 0 and training.episodes >= 1

    def on_update(self, training, updates):
        assert training.agent.model is not None
        self.write(training, f"update {sum(x.updates for x in updates)} {sorted(updates[0].means())[0]}")

    def on_evaluation(self, training, evaluation):
        self.write(training, f"evaluation {len(evaluation.scores)}")

    def on_checkpoint(self, training, path):
        self.write(training, f"checkpoint {path.name.lstrip('0')} {path.is_dir()}")

    def on_end(self, training):
        self.write(training, f"end {training.env_steps}")


@dataclass
class StopAt(Callback):
    env_steps: int
    method: str = "on_update"

    def __post_init__(self):
        setattr(self, self.method, self.stop)

    def stop(self, training, *_):
        return np.bool_(training.env_steps < self.env_steps)


@dataclass
class Fails(Callback):
    method: str

    def __post_init__(self):
        setattr(self, self.method, self.fail)

    def fail(self, *_):
        raise ValueError("the disk\nis red")


class Misspelled(Callback):
    def on_rolout(self, training, rollout): ...


class Rows(Sink):
    def __init__(self):
        self.calls = []

    def open(self, settings, folder, env_steps):
        self.calls.append(("open", settings["algorithm"], env_steps))

    def write(self, row):
        self.calls.append(("write", row["env_steps"]))
        row.clear()

    def event(self, line):
        self.calls.append(("event", line))

    def close(self):
        self.calls.append(("close",))


class RedSink(Sink):
    def write(self, row):
        raise OSError("no route")


@dataclass
class LoggedAs(Callback):
    name: str

    def on_update(self, training, updates):
        training.log(self.name, 1.0)


def train(folder, callbacks=(), sinks=(), **values):
    chosen = {**SMALL, "env_steps": 256, "log__interval": 64, "evaluation__interval": 0, **values}
    return accel_rl.train("ppo", callbacks=callbacks, sinks=sinks, run_dir=folder / "run", **chosen)


def calls(folder):
    return (folder / "run/calls").read_text().splitlines()


def test_the_order_of_the_calls(tmp_path):
    train(tmp_path, [Calls], env_steps=64, evaluation__interval=32, evaluation__episodes=2, checkpoint__interval=32)
    cycle = ["rollout 32", "update 2 clipped", "evaluation 2"]
    assert calls(tmp_path) == ["start 0", *cycle, "checkpoint 32 True", *cycle, "checkpoint 64 True", "end 64"]


@pytest.fixture(scope="module")
def observed(tmp_path_factory):
    """A run that was trained with two callbacks and a sink, and the sink."""
    sink = Rows()
    callbacks = [Calls(), SaveBest()]
    return train(tmp_path_factory.mktemp("observed"), callbacks, [sink], checkpoint__interval=64), sink


def test_metrics_of_a_callback_are_columns(observed):
    metrics = observed[0].metrics
    assert metrics["reward_mean"].tolist() == [1.0] * 4 and np.nanmin(metrics["longest"]) > 1


def test_a_run_with_callbacks_equals_a_run_without(tmp_path):
    catch = {"env": "tests.catch:make", "network": "tests.samplers.conftest:Small", "torch_threads": 1}
    catch |= {"env_steps": 128, "log__interval": 32}
    with_callbacks = train(tmp_path / "a", [VideoEvery(env_steps=32, max_steps=5), Calls(), SaveBest()], **catch)
    plain = train(tmp_path / "b", **catch).path
    for row, other in zip(rows(with_callbacks.path), rows(plain), strict=True):
        shared = other.keys() - {"wall_s", "cpu_s", "joules", "steps_per_s"}
        assert {name: row[name] for name in shared} == {name: other[name] for name in shared}
    assert len(list((with_callbacks.path / "videos").iterdir())) == 4


def test_a_resumed_run_has_the_callbacks_of_config_json(tmp_path):
    train(tmp_path / "cut", [Calls(), StopAt(160)], log__interval=128, checkpoint__interval=32)
    cut = Run(tmp_path / "cut/run", trust=True).resume(callbacks=[Calls()])
    whole = train(tmp_path / "whole", [Calls()], log__interval=128, checkpoint__interval=32)
    assert cut.config.callback == (f"{MODULE}:Calls(name='calls')",)
    assert calls(tmp_path / "cut").count("start 160") == 1
    for name in ("reward_mean", "longest", "loss"):
        assert cut.metrics[name][-1] == whole.metrics[name][-1]
    cut.resume(env_steps=288)
    assert calls(tmp_path / "cut").count("start 256") == 1


@pytest.mark.parametrize(
    "method", ["on_update", *(slow(m) for m in ("on_start", "on_rollout", "on_evaluation", "on_checkpoint"))]
)
def test_a_method_that_returns_false_ends_the_run(tmp_path, method):
    values = {"env_steps": 160, "evaluation__interval": 32, "evaluation__episodes": 1, "checkpoint__interval": 32}
    stopped = train(tmp_path, [StopAt(64 * (method != "on_start"), method)], **values)
    at = stopped.result.env_steps
    assert at == {"on_start": 0, "on_rollout": 96}.get(method, 64) and stopped.result.exit_code == 0
    assert Checkpoints(stopped.path / "checkpoints").steps()[-1] == at
    assert f"callback StopAt.{method} ends the run" in (stopped.path / "events.log").read_text()
    assert stopped.resume(callbacks=[]).result.env_steps == 160


@pytest.mark.parametrize("method", ["on_update", *map(slow, ("on_start", "on_rollout", "on_checkpoint"))])
def test_an_error_names_the_callback_and_the_method(tmp_path, method):
    with pytest.raises(RunError, match=rf"^callback Fails.{method} failed: ValueError: the disk is red; the traceb"):
        train(tmp_path, [Fails(method)])
    assert "in fail\n" in (tmp_path / "run/events.log").read_text()


def test_the_command_line_names_callbacks_and_sinks(tmp_path):
    options = ("--env", "CartPole-v1", "--envs", 4, "--engine", "in-process", "--evaluation.interval", 0)
    named = ("--callback", f"{MODULE}:Calls", "--callback", f"{MODULE}:Fails(method='on_end')")
    done = run("train", "a2c", *options, "--env-steps", 80, "--run-dir", tmp_path / "run", *named)
    assert done.returncode == 1 and "accel-rl: callback Fails.on_end failed: ValueError" in done.stderr
    assert "Traceback" not in done.stderr and calls(tmp_path)[0] == "start 0"


REPLAY = ("--replay.size", 2_000, "--replay.start", 80)
MODES = {
    "sync": ("a2c", "--ranks", 2),
    "async": ("a2c", "--ranks", 2, "--update", "async"),
    "concurrent": ("dqn", "--schedule", "concurrent", "--target-interval", 80, *REPLAY),
    "workers": ("a2c", "--engine", "workers", "--workers", 1),
}


@pytest.mark.parametrize("mode", [*(slow(mode) for mode in ("sync", "async", "workers")), "concurrent"])
def test_callbacks_run_on_rank_0_of_every_mode(tmp_path, mode):
    algorithm, *options = MODES[mode]
    options += [] if mode == "workers" else ["--engine", "in-process"]
    options += ["--env", "CartPole-v1", "--envs", 4, "--evaluation.interval", 0, "--torch-threads", 1]
    options += ["--callback", f"{MODULE}:Calls", "--callback", f"{MODULE}:StopAt(env_steps=400, method='on_rollout')"]
    done = run("train", algorithm, *options, "--env-steps", 10**6, "--run-dir", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    made = calls(tmp_path)
    assert made.count("start 0") == 1 and len(made) > 10
    assert made[-1].startswith("end ") and 400 <= int(made[-1].split()[1]) < 100_000
    assert made[-2].startswith("checkpoint ") and "stopped at" in done.stdout


@pytest.mark.slow
def test_callbacks_of_the_device_engine(tmp_path):
    values = {"env": None, "game": "pong", "noop_max": 2, "engine": "device"}
    values |= {"horizon": 4, "env_steps": 48, "torch_threads": 1}
    train(tmp_path, [Calls()], **values)
    assert calls(tmp_path).count("rollout 16") == 3 and calls(tmp_path)[-1] == "end 48"


def test_a_sink_receives_rows_and_events(observed):
    trained, sink = observed
    assert sink.calls[0] == ("open", "ppo", 0) and sink.calls[-1] == ("close",)
    assert [x for x in sink.calls if x[0] == "write"] == [("write", n) for n in (64, 128, 192, 256)]
    assert len(trained.metrics["loss"]) == 4 and trained.config.sink == ()
    lines = [x[1] for x in sink.calls if x[0] == "event"]
    assert lines and all(line in (trained.path / "events.log").read_text() for line in lines)


def test_an_error_of_a_sink_names_it(tmp_path):
    with pytest.raises(RunError, match=r"^sink RedSink.write failed: OSError: no route; the traceback"):
        train(tmp_path, sinks=[RedSink])
    with open(tmp_path / "run/metrics.csv") as f:
        assert len(list(csv.DictReader(f))) == 1


def test_a_metric_needs_a_name_of_its_own(tmp_path):
    with pytest.raises(RunError, match="a row has a column 'loss' of its own"):
        train(tmp_path / "a", [LoggedAs("loss")])
    with pytest.raises(RunError, match=r"callback LoggedAs.on_update failed: ConfigError: metric 'score'"):
        train(tmp_path / "b", [LoggedAs("score")])


class Local(Callback):
    def __init__(self):
        self.model = None


@pytest.mark.parametrize(
    ("thing", "text"),
    [
        (Calls("x"), f"{MODULE}:Calls(name='x')"),
        (StopAtScore(score=1.5), "StopAtScore(score=1.5, episodes=100)"),
        (Sink(), "accel_rl.metrics.sinks:Sink"),
        (Local(), None),
        (Calls(name=Path("x")), None),
    ],
)
def test_the_text_of_an_object(thing, text):
    assert spec_of(thing) == text


@pytest.mark.parametrize(
    ("callbacks", "line"),
    [
        (Calls, "must be a list, each a Callback, its class or its name"),
        ([1], "callbacks has 1: it is not a Callback, its class or its name"),
        ([Misspelled], "callback Misspelled: no run calls on_rolout; nearest: on_rollout"),
        ([StopAtScore], "StopAtScore: missing a required argument: 'score'"),
        (["StopAtScore(1)"], "must be module:Class or module:Class(name=value, ...) with plain values"),
        (["StopAtScor(score=1)"], "must be StopAtScore, SaveBest, VideoEvery, WandbArtifacts or module:Class"),
        ([f"{MODULE}:Rows"], "it is not a subclass of accel_rl.Callback"),
        (["VideoEvery(env_steps=0)"], "env_steps 0 and max_steps 27000 must be positive"),
    ],
)
def test_a_wrong_callback_is_one_line_before_the_run(tmp_path, callbacks, line):
    with pytest.raises(ConfigError) as e:
        train(tmp_path, callbacks)
    assert line in str(e.value) and "\n" not in str(e.value) and not (tmp_path / "run").exists()


def test_an_object_without_a_text_is_refused_where_rank_0_is_another_process(tmp_path):
    with pytest.raises(ConfigError, match="callback Local: rank 0 is another process and cannot receive this object"):
        train(tmp_path, [Local()], ranks=2)


def test_gorila_calls_the_methods_of_its_driver(tmp_path):
    with pytest.raises(ConfigError, match=r"callback Calls: --cluster gorila calls only on_start, on_evaluation, on_c"):
        accel_rl.train("dqn", env="CartPole-v1", cluster="gorila", callbacks=[Calls()], run_dir=tmp_path / "run")


def test_a_run_stops_at_a_score(tmp_path):
    stopped = train(tmp_path, [StopAtScore(score=5, episodes=3)], env_steps=10_000)
    assert stopped.result.env_steps < 10_000 and stopped.result.score >= 5
    with pytest.raises(RunError, match=r"must be 1 to --log.window 100"):
        train(tmp_path / "b", [StopAtScore(score=5, episodes=101)])


def test_the_best_network_of_training_is_stored(observed):
    trained, _ = observed
    best = BestAgent(RunFolder(trained.path), "best-training").load()
    assert best["evaluation"]["score_mean"] == pytest.approx(np.nanmax(trained.metrics["score"]))
    folder = max((trained.path / "best-training/checkpoints").iterdir())
    assert load(folder)["env_steps"] == best["env_steps"]
    assert trained.evaluate(episodes=1, checkpoint=str(folder)).mean > 0


@dataclass
class FailsAt(Callback):
    env_steps: int

    def on_checkpoint(self, training, path):
        assert training.env_steps != self.env_steps


@pytest.mark.slow
def test_a_run_that_ended_between_a_checkpoint_and_its_call_stores_the_best_network_when_it_is_resumed(tmp_path):
    whole = train(tmp_path / "whole", [SaveBest()], env_steps=320, checkpoint__interval=64).path
    best = BestAgent(RunFolder(whole), "best-training").load()
    assert best["env_steps"] < 320
    with pytest.raises(RunError, match="FailsAt"):
        train(tmp_path, [FailsAt(best["env_steps"]), SaveBest()], env_steps=320, checkpoint__interval=64)
    Run(tmp_path / "run", trust=True).resume(callbacks=[SaveBest()])
    names = [sorted(p.name for p in (run / "best-training/checkpoints").iterdir()) for run in (whole, tmp_path / "run")]
    assert names[0] == names[1] and f"{best['env_steps']:012d}" in names[0]


@pytest.mark.parametrize(("environment", "extra"), [("CartPole-v1", "classic-control"), ("FrozenLake-v1", "toy-text")])
def test_a_missing_renderer_is_named_before_and_after_the_run(tmp_path, capsys, monkeypatch, environment, extra):
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(ConfigError, match=rf"cannot be rendered without pip install 'gymnasium\[{extra}\]'"):
        train(tmp_path, [VideoEvery()], env=environment)
    assert not (tmp_path / "run").exists()
    options = ["--envs", "2", "--engine", "in-process", "--minibatch", "16", "--horizon", "16", "--env-steps", "32"]
    assert main(["train", "ppo", "--env", environment, *options, "--run-dir", str(tmp_path / "b")]) == 0
    watch = next(line for line in capsys.readouterr().out.splitlines() if "accel-rl watch" in line)
    assert watch.endswith(f"a video of the agent, after pip install 'gymnasium[{extra}]'")
    assert main(["watch", str(tmp_path / "b"), "--steps", "3", "--out", str(tmp_path / "a.gif")]) == 2
