"""Gymnasium environments: spaces, time limits, exact states."""

import json
import random

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from accel_rl import make_sampler
from accel_rl.data.rollout_arrays import Step
from accel_rl.data.spec import EnvSpec
from accel_rl.envs.environment import EnvError, pack_state, unpack_state
from accel_rl.envs.episode_info import SCORE, unpacked
from accel_rl.envs.gymnasium import GymnasiumEnv
from accel_rl.envs.make import make_batch, make_spec
from accel_rl.text.errors import ConfigError
from tests.env_settings import env_of
from tests.environments import numbered


class Toy(gymnasium.Env):
    """An environment with random observations of a given space, episodes of 20 steps, and the actions 5, 6 and 7."""

    action_space = spaces.Discrete(3, start=5)

    def __init__(self, observation_space: spaces.Space, noise: float = 0.0) -> None:
        self.observation_space = observation_space
        self.noise = noise

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._look(), {}

    def step(self, action):
        assert action in (5, 6, 7)
        self.t += 1
        return self._look(), float(action), self.t >= 30, self.t >= 20, {}

    def _look(self):
        self.observation_space.seed(int(self.np_random.integers(1000)))
        return self.observation_space.sample()


def picture() -> gymnasium.Env:
    return Toy(spaces.Box(0, 255, (12, 10), np.uint8))


def colour() -> gymnasium.Env:
    return Toy(spaces.Box(0, 255, (12, 10, 3), np.uint8))


def matrix() -> gymnasium.Env:
    return Toy(spaces.Box(-1, 1, (2, 3), np.float64))


def named() -> gymnasium.Env:
    return Toy(spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Box(0, 1, (2,))}))


class Drifting(Toy):
    def _look(self):
        return np.random.default_rng().random(2).astype(np.float32)


def drifting() -> gymnasium.Env:
    return Drifting(spaces.Box(0, 1, (2,)))


def nothing() -> None:
    return None


class Wrong(Toy):
    """An environment whose observations are outside its observation space."""

    def _look(self):
        return np.full(2, 7.0, np.float32)


def wrong() -> gymnasium.Env:
    return Wrong(spaces.Box(0, 1, (2,)))


HERE = f"{__name__}:"


def test_cartpole_spec() -> None:
    spec = make_spec(env_of(id="CartPole-v1"), training=True)
    assert (spec.frame_shape, spec.frame_dtype, spec.n_actions, spec.stack) == ((4,), "float32", 2, 1)
    assert spec.protocol["max_episode_steps"] == 500


@pytest.mark.parametrize(
    ("factory", "shape", "dtype", "stack"),
    [("picture", (12, 10), "uint8", 4), ("matrix", (6,), "float32", 1), ("named", (5,), "float32", 1)],
)
def test_factories_and_spaces(factory: str, shape: tuple[int, ...], dtype: str, stack: int) -> None:
    env = GymnasiumEnv(HERE + factory, seed=0)
    assert (env.spec.frame_shape, env.spec.frame_dtype, env.spec.stack) == (shape, dtype, stack)
    frame = np.zeros(shape, dtype)
    env.reset(frame)
    assert frame.any()
    assert env.step(2, frame) == (7.0, False, False, False)


def test_stack_is_for_pictures() -> None:
    assert make_spec(env_of(id=HERE + "picture", stack=2), True).stack == 2
    assert make_spec(env_of(id="CartPole-v1", stack=2), True).stack == 1


def test_time_limit_is_a_truncation() -> None:
    env = GymnasiumEnv(HERE + "picture", seed=0)
    frame = np.zeros((12, 10), np.uint8)
    env.reset(frame)
    steps = [env.step(0, frame)[1:] for _ in range(20)]
    assert steps[-1] == (False, True, True) and set(steps[:-1]) == {(False, False, False)}


@pytest.mark.parametrize("id", ["CartPole-v1", HERE + "picture", HERE + "named", "FrozenLake-v1"])
def test_exact_resume(id: str) -> None:
    config = env_of(id=id)
    batch = make_batch(config, [1, 2], True, "immediate", 5)
    out = Step.empty(2, batch.spec)
    batch.reset(out)
    actions = np.random.default_rng(0).integers(batch.spec.n_actions, size=(150, 2))

    def course(batch, actions) -> list[bytes]:
        played = []
        for action in actions:
            batch.send(action)
            batch.recv(out)
            played.append(out.frame.tobytes() + out.reward.tobytes() + out.ended.tobytes() + out.age.tobytes())
        return played

    course(batch, actions[:60])
    states = batch.get_state()
    expected = course(batch, actions[60:])
    other = make_batch(config, [8, 9], True, "immediate", 5)
    other.set_state(states)
    assert course(other, actions[60:]) == expected


def test_state_before_the_first_reset() -> None:
    env, other = GymnasiumEnv("CartPole-v1", seed=3), GymnasiumEnv("CartPole-v1", seed=4)
    other.set_state(env.get_state())
    frames = np.zeros((2, 4), np.float32)
    env.reset(frames[0]), other.reset(frames[1])
    assert (frames[0] == frames[1]).all()


def test_foreign_states_are_refused() -> None:
    env = GymnasiumEnv("CartPole-v1", seed=0)
    state = env.get_state()
    with pytest.raises(ValueError, match="Acrobot"):
        GymnasiumEnv("Acrobot-v1", seed=0).set_state(state)
    with pytest.raises(ValueError):
        env.set_state(state[:-1])


def test_a_replay_that_differs_is_told() -> None:
    env = GymnasiumEnv(HERE + "drifting", seed=0)
    env.reset(np.zeros(2, np.float32))
    with pytest.warns(RuntimeWarning, match="not deterministic"):
        env.set_state(env.get_state())


@pytest.mark.parametrize(
    ("id", "says"),
    [
        ("CartPole-v11", "nearest: CartPole-v1"),
        ("Cartpol-v1", "nearest: CartPole-v1"),
        ("no_such_module:make", "cannot import 'no_such_module'"),
        ("sys:exit", "called sys.exit(None) while the environment was made"),
        (HERE + "nothing", "must be a gymnasium.Env"),
        (HERE + "no_such_function", "has no no_such_function"),
        ("tests.action_spaces:integers", "must be Discrete, MultiDiscrete, MultiBinary or Box of floats"),
    ],
)
def test_errors_are_one_line(id: str, says: str) -> None:
    with pytest.raises(ConfigError) as e:
        env_of(id=id).check()
    assert says in str(e.value) and "\n" not in str(e.value)


@pytest.mark.parametrize(
    ("env", "actions"),
    [
        ("numbers", [[0.1, 7.0], [-3.5, 0.25], [2.0, -1.0]]),
        ("choices", [[2, 1], [0, 0], [1, 1]]),
        ("bits", [[1, 0, 1]]),
    ],
)
def test_actions_of_several_numbers(env, actions):
    """Box actions are clipped to the bounds of the action space, MultiDiscrete actions are shifted by the space's first
    element, and all actions are saved with the episode."""
    env = GymnasiumEnv(f"tests.action_spaces:{env}", seed=3)
    frame, played = np.zeros(3, np.float32), np.zeros(3, np.float32)
    env.reset(frame)
    results = [env.step(action, frame) for action in actions]
    spec = env.spec
    assert spec.action_shape == (len(actions[0]),) and spec.n_actions == sum(spec.choices or [1] * len(actions[0]))
    assert EnvSpec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec
    other = GymnasiumEnv(env.id, seed=4)
    other.set_state(env.get_state())
    assert env.step(actions[0], frame) == other.step(actions[0], played) and results[0][0] <= 1
    np.testing.assert_array_equal(frame, played)


class Told(Toy):
    """An environment whose episodes have `steps` steps, and whose `info` has the score of the episode and other
    numbers."""

    def __init__(self, steps: int) -> None:
        super().__init__(spaces.Box(0, 1, (2,)))
        self.steps = steps

    def step(self, action):
        observation, reward, _, _, _ = super().step(action)
        ended = self.t >= self.steps
        episode = {"episode": {"r": np.float32(7.5), "l": self.t}} if ended else {}
        info = {"is_success": np.bool_(True), "laps": 3, "name": "x", "path": [1, 2], **episode}
        return observation, reward, ended, False, info


def told() -> gymnasium.Env:
    return Told(4)


def endless() -> gymnasium.Env:
    return Told(10**9)


class Unseeded(Toy):
    """A nondeterministic environment: the lengths of its episodes do not depend on the seed."""

    moments = iter((9, 2, 50, 50))

    def reset(self, *, seed=None, options=None):
        self.end = next(self.moments)
        return super().reset(seed=seed)

    def step(self, action):
        return *super().step(action)[:2], self.t >= self.end, False, {}


def unseeded() -> gymnasium.Env:
    return Unseeded(spaces.Box(0, 1, (2,)))


def test_an_evaluation_has_a_limit_of_its_own() -> None:
    config = env_of(id=HERE + "endless", max_evaluation_steps=5)
    assert make_spec(config, training=False).protocol["max_episode_steps"] == 5
    assert make_spec(config, training=True).protocol["max_episode_steps"] is None
    batch = make_batch(config, [1], training=False)
    out = Step.empty(1, batch.spec)
    batch.reset(out)
    flags = []
    for _ in range(12):
        batch.send(np.zeros(1, np.int64))
        batch.recv(out)
        flags.append((bool(out.terminated[0]), bool(out.truncated[0]), bool(out.ended[0])))
    assert flags == ([(False, False, False)] * 4 + [(False, True, True)]) * 2 + [(False, False, False)] * 2


def test_an_episode_that_cannot_be_continued_is_cut() -> None:
    """If an environment cannot be restored because it is nondeterministic, a warning is printed, and the next step
    truncates its episode."""
    batch = make_batch(env_of(id=HERE + "unseeded"), [1], training=True)
    out = Step.empty(1, batch.spec)
    batch.reset(out)
    for _ in range(5):
        batch.send(np.zeros(1, np.int64))
        batch.recv(out)
    state = batch.get_state()
    with pytest.warns(RuntimeWarning, match="not deterministic: its episode cannot be continued, and a new one begins"):
        batch.set_state(state)
    courses = []
    for _ in range(3):
        batch.send(np.zeros(1, np.int64))
        batch.recv(out)
        courses.append((float(out.reward[0]), bool(out.truncated[0]), bool(out.ended[0]), int(out.age[0])))
    assert courses == [(0.0, True, True, 0), (5.0, False, False, 1), (5.0, False, False, 1)]


def test_numbers_of_the_last_info_and_the_recorded_score() -> None:
    batch = make_batch(env_of(id=HERE + "told"), [1, 2], training=True)
    out = Step.empty(2, batch.spec)
    batch.reset(out)
    for _ in range(4):
        batch.send(np.zeros(2, np.int64))
        batch.recv(out)
    assert out.ended.all()
    assert unpacked(out.info[1]) == {SCORE: 7.5, "is_success": 1.0, "laps": 3.0}


def limited() -> gymnasium.Env:
    return gymnasium.wrappers.TransformReward(gymnasium.wrappers.TimeLimit(Told(4), 3), abs)


def unlimited() -> gymnasium.Env:
    return gymnasium.make("CartPole-v1").unwrapped


@pytest.mark.parametrize(("factory", "limit"), [("limited", 3), ("unlimited", None)])
def test_the_time_limit_is_that_of_the_wrappers(factory: str, limit: int | None) -> None:
    assert make_spec(env_of(id=HERE + factory), training=True).protocol["max_episode_steps"] == limit


@pytest.mark.parametrize("engine", ["workers", "in-process"])
def test_functions_get_the_number_and_the_keyword_arguments(engine: str) -> None:
    kwargs = {"level": 9}
    with make_sampler(env=numbered, kwargs=kwargs, envs=8, workers=2, horizon=2, engine=engine, policy="random") as s:
        seen = s.collect().observations(0).reshape(8, 3)
    assert sorted(seen.tolist()) == [[float(i), 1.0, 9.0] for i in range(8)]


def test_keyword_arguments_are_given_to_gymnasium() -> None:
    spec = make_spec(env_of(id="FrozenLake-v1", kwargs='{"map_name": "8x8"}'), True)
    assert spec.frame_shape == (64,) and spec.protocol["kwargs"] == {"map_name": "8x8"}


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            {"id": "tests.environments:numbered", "kwargs": '{"a": 2}'},
            "has no parameter 'a'; it has index, training, level",
        ),
        ({"id": "CartPole-v1", "kwargs": '{"no_such": 2}'}, "no_such"),
        ({"id": "CartPole-v1", "kwargs": "{level}"}, "must be a JSON object"),
        ({"id": "CartPole-v1", "kwargs": "[1]"}, "must be a JSON object"),
        ({"game": "pong", "kwargs": '{"a": 1}'}, "is for Gymnasium environments"),
        ({"id": "CartPole-v1", "max_episode_steps": 0}, "must be a whole number from 1"),
        ({"id": "phys2d/CartPole-v1"}, "cannot be made: ModuleNotFoundError: No module named 'jax'"),
    ],
)
def test_wrong_settings_of_environments_end_in_one_line(settings: dict, says: str) -> None:
    with pytest.raises(ConfigError) as e:
        make_spec(env_of(**settings), True)
    assert says in str(e.value) and "\n" not in str(e.value)


@pytest.mark.parametrize("training", [True, False])
def test_a_time_limit_is_for_training_and_evaluation(training: bool) -> None:
    config = env_of(id="CartPole-v1", max_episode_steps=3, max_evaluation_steps=40)
    assert make_spec(config, training).protocol["max_episode_steps"] == 3
    batch = make_batch(config, [1], training)
    out = Step.empty(1, batch.spec)
    batch.reset(out)
    ends = []
    for t in range(7):
        batch.send(np.array([t % 2]))
        batch.recv(out)
        ends.append((bool(out.truncated[0]), bool(out.terminated[0])))
    assert ends == [(t in (2, 5), False) for t in range(7)]


@pytest.mark.slow
def test_gymnasiums_checker_warns_before_the_run(capfd: pytest.CaptureFixture[str]) -> None:
    env_of(id=HERE + "wrong").check(60.0)
    says = "tests.envs.test_gymnasium:wrong: Gymnasium's checker: The obs returned by the `step()` method is not within"
    assert says in capfd.readouterr().err


def test_the_namespace_of_an_installed_package_is_registered(tmp_path, monkeypatch) -> None:
    """An environment of a package, such as MinAtar, that declares its Gymnasium namespace as an entry point can be
    made."""
    (tmp_path / "small_games.py").write_text(
        "import gymnasium\n\ndef register():\n"
        "    gymnasium.register('SmallGames/Pole-v0', 'gymnasium.envs.classic_control:CartPoleEnv')\n"
    )
    info = tmp_path / "small_games-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: small-games\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[gymnasium.envs]\nSmallGames = small_games:register\n")
    with pytest.raises(ConfigError, match="is unknown"):
        GymnasiumEnv("SmallGames/Pole-v0", seed=0)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert GymnasiumEnv("SmallGames/Pole-v0", seed=0).spec.frame_shape == (4,)
    finally:
        gymnasium.registry.pop("SmallGames/Pole-v0", None)


class Bright(gymnasium.Env):
    """An environment whose observations are float32 pictures with values up to 255."""

    observation_space = spaces.Box(0, 255, (12, 12, 3), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.low, {}

    def step(self, action):
        return self.observation_space.high, 0.0, False, False, {}


def test_large_floats_of_pictures_are_named() -> None:
    with pytest.warns(UserWarning, match="pictures of floats up to 255 are not divided: scale them to 1"):
        GymnasiumEnv(f"{__name__}:Bright", seed=0).report_faults()


def normalizing() -> gymnasium.Env:
    return gymnasium.wrappers.NormalizeObservation(gymnasium.make("CartPole-v1"))


def test_statistics_of_wrappers_are_named():
    with pytest.warns(UserWarning, match="do not have the statistics of NormalizeObservation; --normalize and"):
        GymnasiumEnv(HERE + "normalizing", seed=0).report_faults()


def test_a_long_replay_is_said(monkeypatch):
    monkeypatch.setattr("accel_rl.envs.gymnasium.LONG", 5)
    env, frame = GymnasiumEnv("tests.action_spaces:bits", seed=0), np.zeros(3, np.float32)
    env.reset(frame)
    for _ in range(5):
        env.step([0, 1, 0], frame)
    with pytest.warns(UserWarning, match="5 steps of an episode are played again"):
        env.set_state(env.get_state())


class Counter(gymnasium.Env[np.ndarray, int]):
    """An environment whose observation is the number of steps. `played` counts the steps of all instances."""

    observation_space = gymnasium.spaces.Box(0, np.inf, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    played = 0

    def __init__(self) -> None:
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        Counter.played += 1
        self.steps += 1
        return np.full(1, self.steps, np.float32), 0.0, False, False, {}


class SavedCounter(Counter):
    def get_state(self) -> bytes:
        return self.steps.to_bytes(8, "little")

    def set_state(self, state: bytes) -> None:
        if len(state) != 8:
            raise RuntimeError("wrong size")
        self.steps = int.from_bytes(state, "little")


@pytest.mark.parametrize(
    ("name", "restore", "replayed", "following"),
    [
        ("Counter", "replay", 7, (8.0, False)),
        ("Counter", "new", 0, (7.0, True)),
        ("SavedCounter", "replay", 0, (8.0, False)),
        ("SavedCounter", "new", 0, (7.0, True)),
    ],
)
def test_an_episode_is_restored_by_its_state_or_its_actions_or_truncated(name, restore, replayed, following):
    first, frame = GymnasiumEnv(HERE + name, seed=3, restore=restore), np.zeros(1, np.float32)
    first.reset(frame)
    for _ in range(7):
        first.step(1, frame)
    before, state = Counter.played, first.get_state()
    second = GymnasiumEnv(HERE + name, seed=0, restore=restore)
    second.set_state(state)
    assert Counter.played - before == replayed
    if name == "Counter" or restore == "replay":
        assert second.get_state() == state
    else:  # No episode was restored: the environment has not been reset yet.
        assert not unpack_state(second.get_state())[0]["is_saved"]
    _, terminated, truncated, ended = second.step(1, frame)
    assert (frame[0], truncated, ended, terminated) == (*following, following[1], False)
    first.reset(frame), second.reset(frame)
    assert unpack_state(first.get_state())[0]["episode_seed"] == unpack_state(second.get_state())[0]["episode_seed"]


def test_a_state_that_an_environment_refuses_is_one_line():
    env = GymnasiumEnv(HERE + "SavedCounter", seed=0)
    env.reset(np.zeros(1, np.float32))
    header, _ = unpack_state(env.get_state())
    with pytest.raises(
        EnvError, match=r"SavedCounter failed at set_state: RuntimeError: wrong size; with --env.restore"
    ):
        env.set_state(pack_state(header, bytes(4 + header["generators"] + 7)))


class Drawing(SavedCounter):
    """An environment that draws from the global generators, and whose saved state has the type `kind`."""

    kind: type = bytes

    def step(self, action):
        observation, *rest = super().step(action)
        return observation + np.float32(np.random.rand() + random.random()), *rest

    def get_state(self):
        return self.kind(super().get_state())


def test_a_saved_state_has_the_global_generators():
    first, frame, other = GymnasiumEnv(HERE + "Drawing", seed=3), np.zeros(1, np.float32), np.zeros(1, np.float32)
    first.reset(frame)
    for _ in range(3):
        first.step(0, frame)
    second = GymnasiumEnv(HERE + "Drawing", seed=5)
    second.set_state(first.get_state())
    for _ in range(3):
        first.step(0, frame), second.step(0, other)
        assert frame[0] == other[0] and frame[0] % 1


def test_a_state_that_is_not_bytes_is_one_line(monkeypatch):
    monkeypatch.setattr(Drawing, "kind", bytearray)
    env = GymnasiumEnv(HERE + "Drawing", seed=3)
    env.reset(np.zeros(1, np.float32))
    with pytest.raises(
        EnvError, match="failed at get_state: TypeError: the result is of type bytearray, and must be byte"
    ):
        env.get_state()
