"""Training with action masks, in environments that raise an error for an action that is not allowed."""

import gymnasium
import numpy as np
import pytest
import torch

import accel_rl
from accel_rl.data.rollout_arrays import Step
from accel_rl.envs.info_mask import VectorInfoMask
from accel_rl.envs.vectorized import VectorizedEnv
from accel_rl.replays.ring import ReplayBatch
from accel_rl.settings.registry import ALGORITHMS, WITH_REPLAY
from accel_rl.settings.resolved import resolve
from accel_rl.training.learner import build_algorithm
from tests.action_spaces import taxis_without_masks
from tests.golden.runs import config
from tests.integration.runs import resumed_equals
from tests.marks import slow, slow_unless

ENV = "tests.action_spaces:masks"
SMALL = {"engine": "in-process", "envs": 8, "decorrelation_steps": 9, "torch_threads": 1, "seed": 2}
REPLAY = {"replay__size": 4_000, "replay__start": 200, "batch_size": 32}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "options", "least"),
    [
        ("ppo", {"horizon": 64, "minibatch": 64, "learning_rate": 2e-3, "gamma": 0.0, "entropy_coefficient": 0.0}, 0.9),
        ("dqn", {**REPLAY, "learning_rate": 1e-3, "gamma": 0.0, "intensity": 16, "target_interval": 200}, 0.9),
        ("pqn", {"horizon": 64, "minibatch": 64, "learning_rate": 2e-3, "gamma": 0.0, "exploration": 0.3}, 0.85),
    ],
)
def test_it_learns_the_best_allowed_actions(algorithm, options, least, tmp_path):
    trained = accel_rl.train(
        algorithm, env=ENV, env_steps=16_000, evaluation__interval=0, run_dir=tmp_path / "run", **SMALL, **options
    )
    result = trained.evaluate(40, greedy=True)
    assert sum(result.scores) / sum(result.lengths) > least


@pytest.mark.parametrize("kind", ["vector", slow("picture")])
@pytest.mark.parametrize("algorithm", slow_unless(("ppo", "pqn", "dqn", "r2d2").__contains__, ALGORITHMS))
def test_every_algorithm_chooses_allowed_actions(algorithm, kind, tmp_path):
    more = dict(REPLAY) if algorithm in WITH_REPLAY else {}
    if algorithm == "r2d2":
        more = {
            "replay__size": 4_000,
            "replay__start": 200,
            "batch_size": 4,
            "length": 8,
            "burn_in": 4,
            "period": 4,
            "lstm": 8,
        }
    if algorithm == "btr":
        more |= {"replay__start": 200, "envs": 8}
    if algorithm == "impala":
        more |= {"horizon": 5, "batches": 4}
    if kind == "picture":
        more["env__kwargs"] = '{"kind": "picture"}'
    trained = accel_rl.train(
        algorithm, env=ENV, env_steps=480, run_dir=tmp_path / "run", evaluation__interval=480, evaluation__steps=50,
        **{**SMALL, **more},
    )  # fmt: skip
    assert trained.result.env_steps >= 480


@pytest.mark.parametrize("policy", ["random", None])
def test_a_sampler_chooses_allowed_actions(policy):
    with accel_rl.make_sampler("ppo", policy=policy, env=ENV, horizon=20, envs=8, engine="in-process") as sampler:
        for _ in range(10):
            sampler.collect()


@pytest.mark.parametrize("name", ["dqn", "c51", "qrdqn", "iqn"])
@pytest.mark.parametrize("double", [False, True])
def test_the_next_action_of_a_target_is_allowed(name, double):
    """The loss of a batch with action masks equals the loss of a network that gives forbidden actions low values."""
    options = {"double": double, **({"v_min": -20.0, "v_max": 20.0} if name == "c51" else {})}
    resolved = resolve(config(name, ENV, **options))
    spec = resolved.spec
    assert spec.mask == 5 and spec.frame_shape == (8,)
    algo = build_algorithm(resolved, spec, "cpu")
    g = torch.Generator().manual_seed(0)
    N = 200
    obs, obs_t = (torch.randn(N, 8, generator=g) for _ in range(2))
    for x in (obs, obs_t):
        x[:, 3:] = (torch.rand(N, 5, generator=g) < 0.5).float()
        x[:, 3] = 1
    with torch.no_grad():
        for p in [*algo.agent.model.parameters(), *algo.target.parameters()]:
            p.add_(0.3 * torch.randn(p.shape, generator=g))
    zeros = torch.zeros(N)
    batch = ReplayBatch(obs, torch.zeros(N, dtype=torch.int64), zeros, zeros + 1, obs_t, zeros + 1, torch.arange(N))
    q_t, outputs_t = algo.agent.model.q(obs_t), algo.target.q(obs_t)
    _, value = algo.bootstrap(batch, q_t, q_t, outputs_t)
    known = obs_t[:, 3:].numpy() > 0.5
    best = np.where(known, q_t.detach().numpy(), -np.inf).argmax(1)
    assert (best != q_t.argmax(1).numpy()).any()
    np.testing.assert_array_equal(value.detach(), outputs_t.detach().numpy()[np.arange(N), best])


ARGS = (
    "train", "dqn", "--env", ENV, "--envs", 8, "--horizon", 4, "--evaluation.interval", 0, "--checkpoint.interval", 256,
    "--log.interval", 128, "--seed", 3, "--replay.start", 64, "--replay.size", 2_000, "--epsilon-steps", 500,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_resumed_run_equals_an_uninterrupted_one(ranks, tmp_path):
    assert resumed_equals(tmp_path, *ARGS, "--ranks", ranks)


TAXI, TAXIS = "tests.action_spaces:taxi", "tests.action_spaces:taxis"


@pytest.mark.parametrize(
    ("algorithm", "more"),
    [
        ("ppo", {"env": TAXI, "horizon": 40}),
        slow("dqn", {"env": TAXI, **REPLAY}),
        slow("ppo", {"env": TAXIS, "horizon": 40, "env__kwargs": {"mode": "SameStep"}}),
        slow("ppo", {"env": TAXIS, "horizon": 40, "env__kwargs": {"mode": "NextStep"}}),
        slow("ppo", {"env": TAXI, "horizon": 40, "engine": "workers", "workers": 2}),
        slow("dqn", {"env": TAXIS, "env__kwargs": {"mode": "SameStep"}, **REPLAY}),
        slow("pqn", {"env": TAXIS, "horizon": 40, "env__kwargs": {"mode": "Disabled"}}),
    ],
)
def test_masks_in_info(algorithm, more, tmp_path):
    trained = accel_rl.train(
        algorithm, env_steps=960, run_dir=tmp_path / "run", evaluation__interval=480, evaluation__episodes=10,
        env__action_mask="info", **{**SMALL, **more},
    )  # fmt: skip
    assert trained.result.env_steps >= 960 and len(trained.evaluate(5).scores) >= 5
    with pytest.raises(accel_rl.RunError, match=r"AssertionError: action \d of"):
        accel_rl.train(algorithm, env_steps=960, run_dir=tmp_path / "other", **{**SMALL, **more})


@pytest.mark.parametrize("mode", ["SameStep", "NextStep", "Disabled"])
def test_the_mask_of_each_observation_is_that_of_its_info(mode):
    """The mask in each observation is that of the observation's state, which is the whole observation in Taxi."""
    table = gymnasium.make("Taxi-v4").unwrapped
    env = VectorizedEnv(TAXIS, 4, seed=3, stack=1, kwargs={"mode": mode}, mask_in_info=True)
    out, rng, ended = Step.empty(4, env.spec), np.random.default_rng(0), 0
    env.reset(out)
    assert env.spec.mask == 6 and env.spec.frame_shape == (506,)
    for _ in range(70):
        frames = [out.frame, out.final_frame[out.ended]]
        ended += int(out.ended.sum())
        for frame in np.concatenate(frames):
            np.testing.assert_array_equal(frame[500:], table.action_mask(int(frame[:500].argmax())))
        env.send(np.array([rng.choice(np.flatnonzero(mask)) for mask in out.frame[:, 500:]]))
        env.recv(out)
    assert ended >= 8


def test_a_mask_that_is_not_read_is_said(tmp_path):
    with pytest.warns(UserWarning, match="Taxi-v4: info has an action_mask, which no agent reads without --env.action"):
        accel_rl.train("a2c", env="Taxi-v4", env_steps=80, run_dir=tmp_path / "run", **SMALL)


@pytest.mark.parametrize(
    ("env", "error", "line"),
    [
        ("Pendulum-v1", accel_rl.ConfigError, r"--env.action-mask info: id='Pendulum-v1' has the action space Box"),
        (
            "CartPole-v1",
            accel_rl.RunError,
            "failed at the reset of episode 1: ValueError: info has no action_mask; it is empty",
        ),
        ("tests.action_spaces:forgetful", accel_rl.RunError, "at step 1 .* info has no action_mask, only prob"),
    ],
)
def test_environments_without_a_mask_are_one_line(env, error, line, tmp_path):
    with pytest.raises(error, match=line):
        accel_rl.train(
            "a2c", env=env, env_steps=80, env__action_mask="info", run_dir=tmp_path / "run", **SMALL
        )  # fmt: skip


@pytest.mark.slow
def test_a_run_with_masks_in_info_resumes(tmp_path):
    args = [TAXI if x == ENV else x for x in ARGS]
    assert resumed_equals(tmp_path, *args, "--env.action-mask", "info", "--sampler.engine", "in-process")


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_an_environment_of_a_vector_that_has_no_mask_is_named(mode):
    """A missing mask of one environment is reported: Gymnasium's vector environments replace it by zeros, which would
    allow no action."""
    with pytest.raises(ValueError, match="info has no action_mask of environment 1"):
        env = VectorInfoMask("x", taxis_without_masks(2, mode))
        env.reset(seed=0)
        for _ in range(3):
            env.step(np.zeros(2, np.int64))
