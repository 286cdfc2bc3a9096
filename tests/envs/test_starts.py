"""Episodes that begin at saved start points (positions within recorded games) are equal on both backends.

The time limit of an episode includes the frames before its start point.
"""

import functools
import json
import zlib
from dataclasses import replace

import numpy as np
import pytest

from accel_rl.data.rollout_arrays import Step
from accel_rl.envs.make import ResolvedEnv, make_batch, make_env
from accel_rl.envs.start_points import NOTE, StartPoint, StartPoints, draw_moments, load_starts
from accel_rl.envs.starts import StartOrder
from accel_rl.text.errors import ConfigError, RunError
from tests.env_settings import env_of
from tests.marks import slow

SKIP = 4


@functools.cache
def recorded(game: str, lengths: tuple[int, ...] = (60, 90), points: int = 6) -> StartPoints:
    """Record games with random actions in ale-py, and return random start points in these games."""
    env = make_env(env_of(game=game, backend="ale", noop_max=0), 0, False)
    rng, frame, played, rams = np.random.default_rng(5), np.zeros(env.spec.frame_shape, np.uint8), [], []
    for length in lengths:
        env.load()
        env.reset(frame)
        rams.append([zlib.crc32(env.ram())])
        for _ in range(length):
            assert not env.step(int(rng.integers(env.spec.n_actions)), frame)[3]
            rams[-1].append(zlib.crc32(env.ram()))
        played.append(env.actions)
    moments = draw_moments(list(lengths), points, 1)
    found = tuple(StartPoint(g, n, rams[g][n]) for g, n in moments)
    return StartPoints(game, "random play", 0, SKIP, None, None, tuple(played), found)


def courses(config: ResolvedEnv, file, n: int = 2, episodes: int = 2) -> list[list[tuple]]:
    """Play `episodes` episodes of n environments, and return (reward, frame) of all steps, with reward 0 for first
    frames."""
    batch = make_batch(config, list(range(n)), False, starts=StartOrder(str(file), 0, n))
    found: list[list[tuple]] = [[] for _ in range(n)]
    frame = np.zeros(batch.spec.frame_shape, np.uint8)
    for b, env in enumerate(batch.envs):
        for episode in range(episodes):
            env.reset(frame, episode)
            found[b].append((0.0, frame.tobytes()))
            for t in range(15):
                reward, *_, ended = env.step(t % env.spec.n_actions, frame)
                found[b].append((reward, frame.tobytes()))
                assert not ended
    return found


@pytest.mark.parametrize("game", ["pong", *map(slow, ("seaquest", "qbert", "yars_revenge"))])
def test_both_backends_play_the_same_from_each_start(game, tmp_path):
    recorded(game).save(tmp_path / "starts.json")
    config = env_of(game=game, protocol="mnih2015")
    ale, emulator = (courses(replace(config, backend=b), tmp_path / "starts.json") for b in ("ale", "emulator"))
    assert ale == emulator
    assert courses(replace(config, backend="emulator", randomness="counter"), tmp_path / "starts.json") == emulator


@pytest.mark.parametrize("backend", [slow("ale"), "emulator"])
def test_a_start_is_the_recorded_moment_and_its_frames_count(backend, tmp_path):
    points = recorded("breakout", points=3)
    points.save(tmp_path / "starts.json")
    alone = make_env(env_of(game="breakout", backend=backend, noop_max=0), 0, False)
    limit = 100
    config = env_of(game="breakout", backend=backend, max_evaluation_steps=limit)
    (env,) = make_batch(config, [0], False, starts=StartOrder(str(tmp_path / "starts.json"), 0, 1)).envs
    frame, wanted = np.zeros(env.spec.frame_shape, np.uint8), np.zeros(env.spec.frame_shape, np.uint8)
    codes = [int(c) for c in env.codes]
    for i, point in enumerate(points.points):
        env.reset(frame, i)
        alone.load()
        alone.reset(wanted)
        for code in points.games[point.game][: point.steps]:
            alone.step(codes.index(code), wanted)
        assert env.ram() == alone.ram()
        steps, ended = 0, False
        while not ended:
            got, expected = env.step(0, frame), alone.step(0, wanted)
            assert got[0] == expected[0] and (frame == wanted).all()
            steps, ended = steps + 1, got[3]
        assert points.frames(i) == SKIP * point.steps and steps == limit - point.steps and got[2]


def test_a_longer_agent_step_rounds_the_frames_before_up(tmp_path):
    points = recorded("pong")
    points.save(tmp_path / "starts.json")
    config = env_of(game="pong", frame_skip=6, max_evaluation_steps=80)
    (env,) = make_batch(config, [0], False, starts=StartOrder(str(tmp_path / "starts.json"), 0, 1)).envs
    frame = np.zeros(env.spec.frame_shape, np.uint8)
    env.reset(frame, 0)
    steps = 1
    while not env.step(0, frame)[3]:
        steps += 1
    assert steps == 80 - -(-points.frames(0) // 6)


def test_environments_together_use_each_point_once(tmp_path):
    points = recorded("pong", points=7)
    points.save(tmp_path / "starts.json")
    B = 3
    used = []
    for first, n in ((0, 2), (2, 1)):  # as two workers
        batch = make_batch(
            env_of(game="pong"), [0] * n, False, starts=StartOrder(str(tmp_path / "starts.json"), first, B)
        )
        out = Step.empty(n, batch.spec)
        batch.reset(out)
        for i, env in enumerate(batch.envs):
            for episode in range(7 // B + (first + i < 7 % B)):
                env.reset(out.frame[i], episode)
                used.append(zlib.crc32(env.ram()))
    assert sorted(used) == sorted(p.ram for p in points.points)


def test_moments_are_drawn_from_all_games_without_their_ends():
    moments = draw_moments([5, 1, 3], 6, seed=3)
    assert sorted(moments) == [(0, 1), (0, 2), (0, 3), (0, 4), (2, 1), (2, 2)]
    assert draw_moments([500], 10, 1) == draw_moments([500], 10, 1) != draw_moments([500], 10, 2)
    for n in (0, 7):
        with pytest.raises(ConfigError, match=f"{n} start points: must be from 1 to 6"):
            draw_moments([5, 1, 3], n, 0)


def test_a_file_is_verified(tmp_path):
    file, points = tmp_path / "starts.json", recorded("pong")
    points.save(file)
    assert load_starts(file) == points and NOTE in file.read_text()
    assert points.label()["starts_note"] == NOTE and points.label()["starts"] == "saved"
    contents = json.loads(file.read_text())
    file.write_text(json.dumps({**contents, "seed": 9}))
    with pytest.raises(ConfigError, match="damaged"):
        load_starts(file)
    for text, why in (("{", "no readable"), ("[]", "format 'list'"), ('{"format": "x"}', "format 'x'")):
        file.write_text(text)
        with pytest.raises(ConfigError, match=why):
            load_starts(file)
    with pytest.raises(ConfigError, match="accel-rl starts GAME"):
        load_starts(tmp_path / "none.json")


def test_points_that_do_not_fit_an_environment():
    points = recorded("pong")
    rules = env_of(game="pong").rules()
    points.check("pong", rules, 27_000)
    with pytest.raises(ConfigError, match="game=pong, the environment has game=breakout"):
        points.check("breakout", rules, 27_000)
    with pytest.raises(ConfigError, match="mode=None, the environment has mode=1"):
        points.check("pong", replace(rules, mode=1), 27_000)
    latest = max(p.steps for p in points.points)
    points.check("pong", rules, latest + 1)
    with pytest.raises(ConfigError, match=f"at frame {SKIP * latest}, the time limit"):
        points.check("pong", rules, latest)


def test_a_console_that_goes_elsewhere_is_noticed(tmp_path):
    points = recorded("pong")
    bad = replace(points, points=(replace(points.points[0], ram=1),))
    bad.save(tmp_path / "starts.json")
    batch = make_batch(env_of(game="pong"), [0], False, starts=StartOrder(str(tmp_path / "starts.json"), 0, 1))
    with pytest.raises(RunError, match="start point 0 of pong leads elsewhere"):
        batch.reset(Step.empty(1, batch.spec))
