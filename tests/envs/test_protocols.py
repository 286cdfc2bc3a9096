"""Each Atari protocol gives the frames, rewards and ends of the environment that its source documents.

The documented environments are composed of Gymnasium's and ale-py's parts, and use the random numbers of our
environment for no-ops and sticky actions. Our environments on ale-py and on our emulator are both compared with the
documented environment. The frame at the end of a game is not compared, because the documented environments return an
old picture.
"""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import AtariPreprocessing, TimeLimit

from accel_rl.emulator.counter import Counter
from accel_rl.envs.environment import episode_rng
from accel_rl.envs.make import make_env, make_spec
from accel_rl.envs.protocols import PROTOCOLS, resolve
from accel_rl.text.errors import ConfigError
from tests.env_settings import env_of

gym.register_envs(pytest.importorskip("ale_py"))

IDS = {"breakout": "Breakout", "pong": "Pong", "space_invaders": "SpaceInvaders", "freeway": "Freeway"}
SEED = 3
LIMITS = {"breakout": 180, "pong": 50, "space_invaders": 180, "freeway": 50}
"""Maximum agent steps of an episode. Some Breakout games end earlier."""


class Draws:
    """The rules, the time limit and the random numbers of our environment, for the documented environments."""

    def __init__(self, rules, limit=0):
        self.rules, self.limit, self.episode, self.rng = rules, limit, -1, episode_rng(SEED, 0)

    def begin(self) -> int:
        """Begin the next episode, and return its number of no-ops."""
        self.episode += 1
        self.rng = episode_rng(SEED, self.episode)
        return int(self.rng.integers(self.rules.noop_min, self.rules.noop_max + 1))


class Sticky(gym.Wrapper):
    """Sticky actions of Machado et al. 2018, section 5.2: a frame repeats the action of the previous frame with
    probability p."""

    def __init__(self, env, draws):
        super().__init__(env)
        self.draws, self.held = draws, 0

    def reset(self, **kw):
        self.held = 0
        return self.env.reset(**kw)

    def step(self, action):
        if self.draws.rng.random() >= self.draws.rules.repeat_action_probability:
            self.held = action
        return self.env.step(self.held)


class NoopReset(gym.Wrapper):
    """Stable-Baselines3's NoopResetEnv: no-ops after a reset. A game that ends during the no-ops is reset."""

    def __init__(self, env, draws):
        super().__init__(env)
        self.draws = draws

    def reset(self, **kw):
        noops = self.draws.begin()
        obs, info = self.env.reset(**kw)
        for _ in range(noops):
            obs, _, terminated, truncated, info = self.env.step(0)
            if terminated or truncated:
                obs, info = self.env.reset(**kw)
        return obs, info


class MaxAndSkip(gym.Wrapper):
    """Stable-Baselines3's MaxAndSkipEnv: `skip` frames per action; the observation is the maximum of the last two
    frames."""

    def __init__(self, env, skip):
        super().__init__(env)
        self.skip = skip

    def step(self, action):
        total, buffer = 0.0, []
        for _ in range(self.skip):
            obs, reward, terminated, truncated, info = self.env.step(action)
            buffer.append(obs)
            total += reward
            if terminated or truncated:
                break
        return np.max(buffer[-2:], 0), total, terminated, truncated, info


class LifeLoss(gym.Wrapper):
    """DQN Zoo's ZeroDiscountOnLifeLoss: a lost life terminates the return (discount 0), and the game continues."""

    def reset(self, **kw):
        found = self.env.reset(**kw)
        self.lives = self.unwrapped.ale.lives()
        return found

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        lives = self.unwrapped.ale.lives()
        lost, self.lives = lives < self.lives, lives
        return obs, reward, terminated or lost, truncated, info | {"over": terminated or truncated}


class EpisodicLife(LifeLoss):
    """Stable-Baselines3's EpisodicLifeEnv: after a lost life, an episode begins with a no-op step instead of a
    reset."""

    over = True

    def step(self, action):
        found = super().step(action)
        self.over = found[-1]["over"]
        return found

    def reset(self, **kw):
        if self.over:
            return super().reset(**kw)
        obs, _, _, _, info = self.env.step(0)
        self.lives = self.unwrapped.ale.lives()
        return obs, info


class FireReset(gym.Wrapper):
    """Stable-Baselines3's FireResetEnv: after a reset, the agent's actions 1 (FIRE) and 2 are played."""

    def reset(self, **kw):
        self.env.reset(**kw)
        self.env.step(1)
        obs, _, _, _, info = self.env.step(2)
        return obs, info


class FireFrame(gym.Wrapper):
    """A wrapper whose reset ends with one frame of FIRE, as EnvPool's reset does."""

    def reset(self, **kw):
        self.env.reset(**kw)
        obs, _, _, _, info = self.env.step(1)
        return obs, info


class Area(gym.ObservationWrapper):
    """Stable-Baselines3's WarpFrame for gray frames: OpenCV resizes a frame to 84 x 84."""

    def observation(self, obs):
        import cv2

        return cv2.resize(obs, (84, 84), interpolation=cv2.INTER_AREA)


class Subsampled(gym.ObservationWrapper):
    """Stooke & Abbeel 2018, section 5.1: two rows are cropped, and every second pixel is kept."""

    def observation(self, obs):
        return obs[1:209:2, ::2]


def console(game, full=False):
    return gym.make(
        f"ALE/{IDS[game]}-v5", obs_type="grayscale", frameskip=1, repeat_action_probability=0.0, full_action_space=full
    )


def preprocessing(env, draws, skip=4):
    """Return Gymnasium's AtariPreprocessing, in which NoopReset plays the numbers of no-ops of our environment."""
    env = AtariPreprocessing(NoopReset(env, draws), noop_max=0, frame_skip=skip, screen_size=84)
    return TimeLimit(env, draws.limit)


def with_life_loss(game, draws):
    return LifeLoss(preprocessing(console(game), draws))


def cleanrl(game, draws):
    env = EpisodicLife(TimeLimit(MaxAndSkip(NoopReset(console(game), draws), 4), draws.limit))
    return Area(FireReset(env) if "FIRE" in env.unwrapped.get_action_meanings() else env)


def cleanba(game, draws):
    sticky = Sticky(NoopReset(console(game, True), draws), draws)
    return TimeLimit(Area(MaxAndSkip(FireFrame(sticky), 4)), draws.limit)


SOURCES = {
    "stooke2018": lambda game, draws: LifeLoss(
        TimeLimit(Subsampled(MaxAndSkip(NoopReset(console(game), draws), 4)), draws.limit)
    ),
    "mnih2015": with_life_loss,
    "nair2015": with_life_loss,
    "impala2018": with_life_loss,
    "dqn_zoo2020": with_life_loss,
    "machado2018": lambda game, draws: preprocessing(Sticky(console(game, True), draws), draws, 5),
    "dopamine2018": lambda game, draws: preprocessing(Sticky(console(game), draws), draws),
    "cleanrl2022": cleanrl,
    "cleanba2023": cleanba,
}


def test_every_protocol_has_a_source():
    assert set(SOURCES) == set(PROTOCOLS)


def backends():
    """Return the names of the available backends."""
    try:
        import accel_rl.emulator._core  # noqa: F401
    except ImportError:
        return ["ale"]
    return ["ale", "emulator"]


class Ours:
    """Our environment on one backend, and its latest frame."""

    def __init__(self, name, game, backend):
        config = env_of(game=game, protocol=name, backend=backend, max_episode_steps=LIMITS[game])
        self.env = make_env(config, SEED, training=True)
        self.frame = np.zeros(self.env.spec.frame_shape, np.uint8)
        self.reset()

    def reset(self):
        self.env.reset(self.frame)

    def step(self, action):
        return self.env.step(action, self.frame)


# Fast tests play each protocol with one game, and each game with several protocols.
# All other pairs of protocol and game are slow tests.
PAIRS = [
    pytest.param(name, game, marks=() if j == (0, 1, 0, 2, 0, 3)[i % 6] else pytest.mark.slow)
    for i, name in enumerate(PROTOCOLS)
    for j, game in enumerate(IDS)
]


@pytest.mark.parametrize(("name", "game"), PAIRS)
def test_a_protocol_is_its_sources(name, game):
    ours = {backend: Ours(name, game, backend) for backend in backends()}
    (n_actions,) = {x.env.spec.n_actions for x in ours.values()}
    theirs = SOURCES[name](game, Draws(ours["ale"].env.rules, LIMITS[game]))
    obs, _ = theirs.reset()
    assert n_actions == theirs.action_space.n
    for backend, x in ours.items():
        assert (x.frame == obs).all(), (backend, "the first frame")
    rng, ends, returns = np.random.default_rng(0), 0, 0
    for t in range(LIMITS[game] + 20):
        action = int(rng.integers(n_actions))
        obs, reward, their_end, their_limit, info = theirs.step(action)
        over = info.get("over", their_end or their_limit)
        cut = bool(their_limit and not their_end)
        stepped = {backend: x.step(action) for backend, x in ours.items()}
        for backend, step in stepped.items():
            assert (step[0], step[1], step[3]) == (reward, their_end, bool(over)), (backend, t)
            assert not cut or step[2], (backend, t)
        if their_end and not over:
            returns += 1
            if name == "cleanrl2022":  # resets at lost lives
                obs, _ = theirs.reset()
        elif over:
            for x in ours.values():
                x.reset()
            obs, _ = theirs.reset()
            ends += 1
        for backend, x in ours.items():
            assert (x.frame == obs).all(), (backend, t)
    assert ends, "no episode ended"
    assert returns or "life" not in SOURCES[name].__name__ or game in ("pong", "freeway")


# (sticky probability, lost life ends return, all 18 actions, step limit, range of no-ops, frame skip) by protocol
RULES = {
    "mnih2015": (0.0, True, False, 18_000, (0, 30), 4),
    "nair2015": (0.0, True, False, 18_000, (0, 30), 4),
    "machado2018": (0.25, False, True, 18_000, (0, 0), 5),
    "dopamine2018": (0.25, False, False, 108_000, (0, 0), 4),
    "impala2018": (0.0, True, False, 108_000, (0, 30), 4),
    "dqn_zoo2020": (0.0, True, False, 108_000, (1, 30), 4),
    "cleanrl2022": (0.0, True, False, 108_000, (1, 30), 4),
    "cleanba2023": (0.25, False, True, 108_000, (0, 0), 4),
    "stooke2018": (0.0, True, False, 108_000, (0, 30), 4),
}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_rules_are_the_published_ones(name):
    rules = resolve(name).for_evaluation()
    frames = rules.max_episode_steps * rules.frame_skip
    sticky, lives = rules.repeat_action_probability, resolve(name).life_loss_ends_return
    noops = rules.noop_min, rules.noop_max
    assert (sticky, lives, rules.full_action_set, frames, noops, rules.frame_skip) == RULES[name]


def test_noops_are_within_their_bounds():
    draws = Draws(resolve("cleanrl2022"))
    numbers = {draws.begin() for _ in range(600)}
    assert numbers == set(range(1, 31))


def test_noops_of_a_device_are_within_the_same_bounds():
    pytest.importorskip("accel_rl.emulator._core")
    rules = resolve("cleanrl2022")
    starts = Counter(rules.noop_max, rules.frame_skip, cached=False, noop_min=rules.noop_min).starts
    assert {noops for row in starts for _, noops in row} == set(range(1, 31))


def test_presses_are_not_for_a_device():
    pytest.importorskip("accel_rl.emulator._core")
    config = env_of(game="breakout", protocol="cleanrl2022", randomness="counter", backend="emulator")
    with pytest.raises(ConfigError, match="fire_reset=steps: must be none"):
        make_spec(config, training=True)
    with pytest.raises(ConfigError, match="noop_min=4: must be a whole number from 0 to 3"):
        env_of(game="breakout", noop_min=4, noop_max=3).rules()
    with pytest.raises(ConfigError, match=r"fire_reset='step' is unknown.*nearest: steps"):
        env_of(game="breakout", fire_reset="step").rules()
