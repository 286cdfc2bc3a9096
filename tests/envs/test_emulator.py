"""Environments of our emulator give the same rollouts as those of ale-py, in every reset mode."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("accel_rl.emulator._core")

from accel_rl.data.rollout_arrays import Step
from accel_rl.emulator.games import games, has_all_frames
from accel_rl.envs.atari_games import INEXACT_RESTORE
from accel_rl.envs.emulator import EmulatorBatch, EmulatorEnv
from accel_rl.envs.make import EnvConfig, make_batch, make_env, make_spec, resolve_env
from accel_rl.text.errors import ConfigError
from tests.env_settings import env_of
from tests.marks import slow

FIELDS = ("frame", "final_frame", "age", "reward", "terminated", "truncated", "ended", "valid")


def rollout(config: EnvConfig, reset: str, steps: int, n: int = 2, every: int = 40, seed: int = 0) -> list[tuple]:
    """Return the arrays that steps with random actions write, where some environments skip some steps."""
    batch = make_batch(config, list(range(5, 5 + n)), True, reset, decorrelation_steps=7)
    out, rng, seen = Step.empty(n, batch.spec), np.random.default_rng(seed), []
    batch.reset(out)
    for t in range(steps):
        action = rng.integers(batch.spec.n_actions, size=n)
        if t % 17 == 5:
            action[t % n] = -1
        batch.send(action)
        batch.recv(out)
        seen.append(tuple(getattr(out, k).copy() for k in FIELDS))
        if t % every == every - 1:
            batch.reset_waiting(out)
            seen.append((out.frame.copy(), out.age.copy()))
    batch.close()
    return seen


def assert_equal(config: EnvConfig, reset: str, steps: int, n: int = 2) -> None:
    theirs = rollout(replace(config, backend="ale"), reset, steps, n)
    ours = rollout(replace(config, backend="emulator"), reset, steps, n)
    for t, (a, b) in enumerate(zip(theirs, ours, strict=True)):
        for name, x, y in zip(FIELDS, a, b, strict=False):
            assert np.array_equal(x, y), f"{config.game}, {reset}, entry {t}: {name}"


@pytest.mark.parametrize("reset", ["immediate", "cached", slow("wait"), slow("swap")])
def test_rollouts_are_equal_in_every_mode_of_reset(reset: str) -> None:
    assert_equal(env_of(game="breakout", max_episode_steps=50), reset, 120)


@pytest.mark.parametrize(
    "config",
    [
        env_of(game="pong", protocol="machado2018", max_episode_steps=60),
        slow(env_of(game="seaquest", protocol="mnih2015")),
        env_of(game="skiing", protocol="machado2018"),  # no FIRE
        slow(env_of(game="qbert", repeat_action_probability=0.25, frame="104x80-mean")),
        env_of(game="breakout", protocol="cleanrl2022", max_episode_steps=60),
        env_of(game="space_invaders", protocol="cleanba2023", max_episode_steps=40),
        slow(env_of(game="robotank", frame_skip=1, noop_max=3)),
        env_of(game="space_invaders", frame_skip=3, mode=2, difficulty=1),
    ],
    ids=lambda config: f"{config.game}-{config.protocol}",
)
def test_rollouts_are_equal_by_every_rule(config: EnvConfig) -> None:
    assert_equal(config, "immediate", 100, n=1)


def test_areas_are_rounded_as_by_opencv() -> None:
    """Means that lie halfway between two grays, as in assault, are rounded as OpenCV's resize rounds them."""
    assert_equal(env_of(game="assault", protocol="machado2018"), "immediate", 515)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("game", games())
def test_rollouts_of_all_games_are_equal(game: str) -> None:
    if has_all_frames(game):
        assert_equal(env_of(game=game, protocol="mnih2015", max_episode_steps=700), "immediate", 1000)
        assert_equal(env_of(game=game, protocol="machado2018"), "immediate", 1000)
    for reset in ("wait", "swap", "cached"):
        if reset == "cached" and game in INEXACT_RESTORE:
            continue  # ale-py's restore is inexact
        assert_equal(env_of(game=game, max_episode_steps=100), reset, 300)


def test_single_and_batch_are_equal() -> None:
    config = env_of(game="breakout", backend="emulator", repeat_action_probability=0.25)
    batch, single = make_batch(config, [3, 4], True), make_env(config, 4, True)
    assert isinstance(batch, EmulatorBatch) and isinstance(single, EmulatorEnv)
    out, frame = Step.empty(2, batch.spec), np.zeros(batch.spec.frame_shape, np.uint8)
    batch.reset(out)
    single.reset(frame)
    for t in range(200):
        assert (frame == out.frame[1]).all()
        batch.send(np.array([t % 3, t % 4]))
        batch.recv(out)
        reward, terminated, truncated, ended = single.step(t % 4, frame)
        assert (out.reward[1], out.terminated[1], out.truncated[1], out.ended[1]) == (
            reward, terminated, truncated, ended,
        )  # fmt: skip
        if ended:
            single.reset(frame)


def test_a_state_goes_on_exactly() -> None:
    config = env_of(game="qbert", backend="emulator", repeat_action_probability=0.25, max_episode_steps=90)
    batch, other = make_batch(config, [1, 2], True, "swap"), make_batch(config, [8, 9], True, "swap")
    out, theirs = Step.empty(2, batch.spec), Step.empty(2, batch.spec)
    batch.reset(out)
    other.reset(theirs)
    rng = np.random.default_rng(0)
    for t in range(150):
        if t == 40:
            other.set_state(batch.get_state())
        action = rng.integers(batch.spec.n_actions, size=2)
        for b, o in ((batch, out), (other, theirs)):
            b.send(action)
            b.recv(o)
            if t % 30 == 29:
                b.reset_waiting(o)
        if t >= 40:
            assert all(np.array_equal(getattr(out, k), getattr(theirs, k)) for k in FIELDS[2:]), t
            assert (out.frame == theirs.frame).all()


def test_the_spec_differs_in_the_backend_alone() -> None:
    ours = make_spec(env_of(game="seaquest", backend="emulator"), training=True)
    theirs = make_spec(env_of(game="seaquest", backend="ale"), training=True)
    assert ours.protocol == {**theirs.protocol, "backend": "emulator"} and theirs.protocol["backend"] == "ale"
    assert replace(ours, protocol={}) == replace(theirs, protocol={})


def test_auto_is_the_emulator_for_what_it_plays() -> None:
    assert {env_of(game=g).backend for g in games() if g != "word_zapper"} == {"emulator"} and len(games()) == 92
    assert {env_of(game=g).backend for g in ("casino", "word_zapper")} == {"ale"}
    assert env_of(game="king_kong", frame="84x84").backend == "ale"  # 250 rows
    assert (env_of(game="adventure").backend, env_of(game="adventure", mode=1).backend) == ("emulator", "ale")
    assert env_of(game="pong", backend="ale").backend == "ale"
    assert env_of(id="CartPole-v1").backend == "auto"
    assert isinstance(make_env(env_of(game="pong"), 0, True), EmulatorEnv)


def test_without_the_extension_auto_is_ale_and_says_so_once(monkeypatch) -> None:
    def missing() -> None:
        raise ConfigError("the emulator is not built")

    monkeypatch.setattr("accel_rl.emulator.atari.core", missing)
    monkeypatch.setattr("accel_rl.text.notes._said", set())
    with pytest.warns(UserWarning, match="not built; until then Atari is played by ale-py") as said:
        assert [env_of(game="pong").backend for _ in range(3)] == ["ale"] * 3
    assert len(said) == 1


def test_frames_that_are_not_contiguous() -> None:
    config = env_of(game="pong", backend="emulator")
    batch, other = make_batch(config, [1, 2], True), make_batch(config, [1, 2], True)
    out, wide = Step.empty(2, batch.spec), Step.empty(2, batch.spec)
    wide.frame = np.zeros((2, 104, 160), np.uint8)[:, :, ::2]
    batch.reset(out)
    other.reset(wide)
    for _ in range(20):
        for b, o in ((batch, out), (other, wide)):
            b.send(np.array([2, 3]))
            b.recv(o)
        assert (out.frame == wide.frame).all()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (EnvConfig(game="pong", backend="stella"), "backend='stella' is unknown: must be one of auto, ale, emulator"),
        (EnvConfig(game="pong", backend="emulator", mode=77), "mode=77 is not one of pong's"),
        (EnvConfig(id="CartPole-v1", backend="emulator"), "backend='emulator' is for Atari games"),
    ],
)
def test_impossible_backends(config: EnvConfig, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve_env(config).check()
