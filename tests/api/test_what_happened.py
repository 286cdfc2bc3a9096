"""Columns of metrics.csv, scores and exit codes of runs, also in unusual environments."""

import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import accel_rl
from accel_rl.algos.ppo import PPO
from accel_rl.text.errors import ConfigError
from accel_rl.training.learner import Learner
from tests.marks import slow

HERE = "tests.api.small_envs:"
SMALL: dict[str, Any] = {
    "envs": 4, "horizon": 16, "minibatch": 32, "epochs": 1, "env_steps": 128, "decorrelation_steps": 0,
    "engine": "in-process", "evaluation__interval": 0,
}  # fmt: skip
Q: dict[str, Any] = {"envs": 4, "env_steps": 600, "decorrelation_steps": 0, "engine": "in-process",
                     "evaluation__interval": 0, "replay__start": 100, "replay__size": 1000}  # fmt: skip


class Norm(PPO):
    def loss(self, batch):
        loss = super().loss(batch)
        loss.metrics["grad_norm"] = 0.5
        return loss


def train(tmp_path: Path, what: Any = "ppo", env: str = "CartPole-v1", **values: Any) -> accel_rl.Run:
    return accel_rl.train(what, env=env, run_dir=tmp_path / "run", **{**SMALL, **values})


def test_updates_that_a_kl_stop_left_out_do_not_count(tmp_path, monkeypatch):
    made, update = [], Learner.update

    def counted(self, batch):
        made.append(1)
        return update(self, batch)

    monkeypatch.setattr(Learner, "update", counted)
    run = train(tmp_path, target_kl=1e-9, epochs=10, env_steps=256)
    assert run.metrics["updates"][-1] == len(made) < 10 * 256 / 32


def test_a_metric_cannot_have_the_name_of_one_of_each_update(tmp_path):
    with pytest.raises(ConfigError, match="metric 'grad_norm': every update has a metric of this name"):
        train(tmp_path, Norm)


def test_rewards_are_clipped_in_atari_only(tmp_path):
    larger = {"envs": 16, "minibatch": 64, "env_steps": 1536, "learning_rate": 1e-2, "epochs": 2}
    run = train(tmp_path, env=HERE + "Arms", **larger)
    assert run.config.algo.reward_clip == 0.0 and run.metrics["score"][-1] > 80
    assert (run.metrics["info/best"][-1] * 90 + 10) == pytest.approx(run.metrics["score"][-1])
    atari = accel_rl.train(
        "ppo", game="pong", run_dir=tmp_path / "pong", **{**SMALL, "env_steps": 64, "network": "a3c"}
    )
    assert atari.config.algo.reward_clip == 1.0


def test_an_evaluation_without_an_end_is_limited_and_says_so(tmp_path):
    with pytest.warns(UserWarning, match="has no time limit: evaluation episodes end after 50"):
        run = train(
            tmp_path, env=HERE + "Endless", evaluation__interval=128, evaluation__episodes=2,
            evaluation__max_episode_steps=50,
        )  # fmt: skip
    assert run.result is not None and run.result.evaluation is not None
    assert run.result.evaluation.lengths == (50, 50)


@pytest.mark.parametrize(("envs", "engine"), [(1, "in-process"), (7, "workers")])
def test_any_number_of_environments(tmp_path, envs, engine):
    values = {"envs": envs, "engine": engine, "env_steps": envs * 16}
    assert train(tmp_path, **values).result.env_steps == envs * 16


@pytest.mark.parametrize("what", ["ppo", "dqn"])
def test_a_picture_that_is_too_small_is_refused_before_anything_starts(tmp_path, what):
    values = {**(SMALL if what == "ppo" else Q), "network": "nature"}
    line = "pictures of 8x8 are too small for NatureNet: at least 36x36; --network minatar is for small pictures"
    with pytest.raises(ConfigError, match=line):
        accel_rl.train(what, env=HERE + "Small", run_dir=tmp_path / "run", **values)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("what", "engine", "stack"), [slow("ppo", "workers", 2), ("ppo", "in-process", 1), slow("dqn", "in-process", 2)]
)
def test_coloured_pictures_train(tmp_path, what, engine, stack):
    values = {**(SMALL if what == "ppo" else Q), "engine": engine, "env_steps": 128, "stack": stack}
    run = accel_rl.train(what, env=HERE + "Pixels", run_dir=tmp_path / "run", **values)
    assert run.agent.obs_shape == (stack, 3, 36, 36)
    obs = np.zeros((2, *run.agent.obs_shape), np.uint8)
    assert run.agent.act(obs).shape == (2,)
    with pytest.raises(ValueError, match="observations of float32; the agent was trained on pictures of uint8"):
        run.agent.act(obs.astype(np.float32))


@pytest.mark.parametrize(
    ("what", "engine", "network"),
    [
        slow("a2c", "workers", "a3c"),
        slow("a2c", "in-process", "a3c"),
        slow("ppo", "in-process", "dqn"),
        ("dqn", "in-process", "a3c"),
    ],
)
def test_grey_pictures_train_without_a_stack(tmp_path, what, engine, network):
    values = {**(Q if what == "dqn" else SMALL), "engine": engine, "network": network, "env_steps": 160, "stack": 1}
    if what == "a2c":
        values = {name: x for name, x in values.items() if name not in ("minibatch", "epochs")}
    run = accel_rl.train(what, env=HERE + "Grey", run_dir=tmp_path / "run", **values)
    assert run.agent.obs_shape == (1, 36, 36) and len(run.evaluate(episodes=2).scores) == 2


@pytest.mark.slow
def test_transitions_with_nan_are_not_drawn_again_and_are_named(tmp_path):
    run = accel_rl.train(
        "dqn", env=HERE + "RareNaN", run_dir=tmp_path / "run", replay__prioritized=True, log__interval=100,
        max_skipped_updates=1000, intensity=4, **{**Q, "env_steps": 1000},
    )  # fmt: skip
    skipped, updates = run.metrics["skipped_updates"], run.metrics["updates"]
    share = (skipped[-1] - skipped[-5]) / (updates[-1] - updates[-5])
    # If transitions were drawn uniformly, 1 - (1 - 1/50)^32 = 48 % of the batches would have a NaN.
    assert share < 0.3
    assert "the reward of environment" in (run.path / "events.log").read_text()


SCRIPT = """
import os, signal, threading, time
import accel_rl

def send():
    while not os.path.exists("run-0/checkpoints"):
        time.sleep(0.05)
    os.kill(os.getpid(), signal.{signal})

threading.Thread(target=send, daemon=True).start()
for seed in range(3):
    accel_rl.train("ppo", env="CartPole-v1", seed=seed, run_dir=f"run-{{seed}}", checkpoint__interval=128,
                   **{{**{small}, "env_steps": 10**7 if seed == 0 else 64}})
"""


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_callers_loop_after_a_checkpoint(tmp_path, number, code):
    script = textwrap.dedent(SCRIPT).format(signal=number.name, small=SMALL)
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    assert ("KeyboardInterrupt" in done.stderr) == (number == signal.SIGINT)
    assert not (tmp_path / "run-1").exists() and list((tmp_path / "run-0" / "checkpoints").iterdir())
