"""VectorEnv is the emulator as a Gymnasium vector environment, with the arguments and episodes of AtariVectorEnv.

    envs = VectorEnv("breakout", num_envs=8)       # instead of AtariVectorEnv("breakout", num_envs=8)
    obs, info = envs.reset(seed=1)                 # obs [8, 4, 84, 84] uint8
    obs, reward, terminated, truncated, info = envs.step(actions)
    envs.send(actions); ...; envs.recv()           # the same in two calls: threads play meanwhile

With the same seed and actions, VectorEnv gives the same results as AtariVectorEnv, except for the newest frame of an
episode's last observation: AtariVectorEnv 0.12.1 never reads the screen at which an episode ends, and repeats an
earlier screen. If life_loss_info reports a lost life in SAME_STEP mode, AtariVectorEnv does not write final_obs.
VectorEnv additionally supports `AutoresetMode.DISABLED`, `info["final_info"]` with the masks of Gymnasium 1.x in
SAME_STEP mode, and `copy=False`.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from gymnasium import error, logger
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode
from gymnasium.vector import VectorEnv as GymnasiumVectorEnv
from gymnasium.vector.utils import batch_space

from accel_rl.emulator import palette
from accel_rl.emulator.ale_view import AleView
from accel_rl.emulator.atari import core
from accel_rl.emulator.env_core import make_env_core
from accel_rl.emulator.games import (
    ACTION_MEANINGS,
    action_codes,
    check_game,
    check_switches,
    settings,
    vector_games,
)
from accel_rl.machine import hardware
from accel_rl.text.errors import ConfigError, nearest

SIDE = 84  # Height and width of resized observations
WIDTH = 160
RAM_BYTES = 128
OBS_TYPES = ("rgb", "grayscale", "ram")
INFO = ("env_id", "lives", "frame_number", "episode_frame_number")
FIRE = 1
NO_LIMIT = 2**31 - 1
MODES = {m.value: i for i, m in enumerate((AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED))}


class VectorEnv(GymnasiumVectorEnv):
    """`VectorEnv` is a batch of `num_envs` games, played by `num_threads` threads that do not hold the GIL.

    recv() returns the results of the first `batch_size` environments that finish a step; 0 means all environments.
    `info["env_id"]` lists these environments; the next send() sends actions to them. Several batches may be received
    before the first is answered, by send(actions, env_id). `num_threads` = 0 means one thread
    per core that the process's affinity mask and the cgroup's quota allow, but at most one thread per environment.
    `thread_affinity_offset` pins thread i, on Linux, to the (offset + i)-th usable core; -1 means no pinning.
    `max_num_frames_per_episode` is the time limit in emulated frames. `noop_max` is an upper bound on the number of
    no-ops after a reset. The number of no-ops is random and depends on the seed. With `life_loss_info`, a lost life
    terminates the episode, though the game continues. With `episodic_life`, a lost life also resets the game. `mode`
    and `difficulty` are the switches of ale-py's AtariEnv. `rom` is the path of another ROM file than ale-py's, such as
    a variant of the game. With `translate`, the game is compiled in the background, and then played faster, with the
    same results (translation.py).

    `obs_type` "rgb" [210, 160, 3], "grayscale" [210, 160] or "ram" [128] returns raw observations of ale-py's AtariEnv,
    uint8: the last screen of a step or the console's RAM, without a stack. With `render_mode` "rgb_array", render()
    returns the screens.

    If `copy` is False, observations are written to two buffers in turn, and the result of a recv() is valid until the
    send() after the next recv(), or with smaller batches until the recv() after the next one. If `copy` is True, each
    result has its own memory. With either value of `copy`, `torch.from_numpy(obs)` makes no copy.

    With the device "cuda" or "cuda:N", games are emulated on that GPU, and all results are torch tensors on the GPU
    (`DeviceVectorEnv`, which has fewer arguments). The device "cpu" selects a slow build of the GPU emulator for CPUs.

    Raises ConfigError for arguments that only ale-py's AtariVectorEnv supports.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012  # as Gymnasium's
    _arguments: tuple[str, int, dict[str, Any]]
    _envpool = False  # True selects EnvPool's rules of episodes (envpool_env.h, accel_rl.compat.envpool).

    def __new__(cls, game: str, num_envs: int, *, device: str | None = None, **options: Any) -> Any:
        if device is None:
            names = list(cls.__init__.__kwdefaults__ or {})
            for name in options:
                if name == "max_episode_steps":
                    raise ConfigError("max_episode_steps: use max_num_frames_per_episode, in frames (frameskip a step)")
                if name not in names:
                    raise ConfigError(
                        f"{name}: VectorEnv has no such option; ale-py's environments may have it{nearest(name, names)}"
                    )
            self = super().__new__(cls)
            self._arguments = (game, num_envs, options)  # A copy of this VectorEnv is created with these arguments.
            return self
        # The module is imported only here, because it imports torch.
        from accel_rl.emulator.device.device_vector_env import DeviceVectorEnv

        return DeviceVectorEnv(game, num_envs, device=device, **options)

    def __init__(
        self,
        game: str,
        num_envs: int,
        *,
        batch_size: int = 0,
        num_threads: int = 0,
        thread_affinity_offset: int = -1,
        max_num_frames_per_episode: int = 108000,
        repeat_action_probability: float = 0.0,
        full_action_space: bool = False,
        continuous: bool = False,
        continuous_action_threshold: float = 0.5,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        img_height: int = SIDE,
        img_width: int = SIDE,
        grayscale: bool = True,
        stack_num: int = 4,
        frameskip: int = 4,
        maxpool: bool = True,
        noop_max: int = 30,
        episodic_life: bool = False,
        life_loss_info: bool = False,
        reward_clipping: bool = True,
        use_fire_reset: bool = True,
        mode: int | None = None,
        difficulty: int | None = None,
        obs_type: str | None = None,
        render_mode: str | None = None,
        rom: str | os.PathLike[str] | None = None,
        translate: bool = True,
        copy: bool = True,
        device: None = None,
    ) -> None:
        check_game(game, vector_games())
        check_switches(game, mode, difficulty)
        for name, value, only in (
            ("img_height", img_height, SIDE),
            ("img_width", img_width, SIDE),
            ("grayscale", grayscale, True),
            ("continuous", continuous, False),
        ):
            if value != only:
                raise ConfigError(f"{name}={value}: must be {only}; for others use ale_py.vector_env.AtariVectorEnv")
        for name, number, least, most in (
            ("num_envs", num_envs, 1, 2**16),
            ("batch_size", batch_size, 0, num_envs),
            ("num_threads", num_threads, 0, 2**10),
            ("thread_affinity_offset", thread_affinity_offset, -1, 2**16),
            ("max_num_frames_per_episode", max_num_frames_per_episode, 1, NO_LIMIT),
            ("stack_num", stack_num, 1, 2**10),
            ("frameskip", frameskip, 1, 2**10),
            ("noop_max", noop_max, 0, NO_LIMIT),
        ):
            if isinstance(number, bool) or not isinstance(number, int | np.integer) or not least <= number <= most:
                raise ConfigError(f"{name}={number!r}: must be a whole number from {least} to {most}")
        if not 0 <= repeat_action_probability <= 1:
            raise ConfigError(f"repeat_action_probability={repeat_action_probability}: must be from 0 to 1")
        autoreset = autoreset_mode.value if isinstance(autoreset_mode, AutoresetMode) else autoreset_mode
        for name, choice, choices in (
            ("autoreset_mode", autoreset, list(MODES)),
            ("obs_type", obs_type or "None", ["None", *OBS_TYPES]),
            ("render_mode", render_mode or "None", ["None", "rgb_array"]),
        ):
            if choice not in choices:
                raise ConfigError(f"{name}={choice!r}: must be one of {', '.join(choices)}" + nearest(choice, choices))
        if obs_type and stack_num != 4:
            raise ConfigError(
                f"stack_num={stack_num} with obs_type={obs_type!r}: raw observations have no stack, for which use"
                " gymnasium.wrappers.FrameStackObservation"
            )
        codes = self.action_codes = action_codes(game, full_action_space)
        self.num_envs = num_envs
        self.batch_size = batch_size or num_envs
        self.render_mode = render_mode
        self.autoreset_mode = AutoresetMode(autoreset)
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        height = settings(game)["height"]
        raw_shapes = {"rgb": (height, WIDTH, 3), "grayscale": (height, WIDTH), "ram": (RAM_BYTES,)}
        seen = raw_shapes[obs_type] if obs_type else (stack_num, SIDE, SIDE)
        self.single_observation_space = Box(0, 255, seen, np.uint8)
        self.single_action_space = Discrete(len(codes))
        self.observation_space = batch_space(self.single_observation_space, self.batch_size)
        self.action_space = batch_space(self.single_action_space, self.batch_size)
        rules = {
            "stack": 1 if obs_type else stack_num,
            "noop_max": noop_max,
            "max_frames": max_num_frames_per_episode,
            "maxpool": maxpool,
            "fire": use_fire_reset and FIRE in codes,
            "episodic_life": episodic_life,
            "life_loss_info": life_loss_info,
            "clips": reward_clipping,
            "autoreset": MODES[autoreset],
            "repeat_probability": repeat_action_probability,
            "codes": codes,
            "envpool": self._envpool,
        }
        switches: dict[str, Any] = {"mode": mode, "difficulty": difficulty, "rom": rom, "translate": translate}
        self._games = [
            make_env_core(game, "84x84", palette.GRAY, frameskip, NO_LIMIT, life_loss=False, **switches)
            for _ in range(num_envs)
        ]
        self._palette = palette.rgb(game)
        if obs_type:
            gray = palette.gray(game).tobytes()
            table = {"rgb": self._palette.tobytes(), "grayscale": gray, "ram": b""}[obs_type]
            for one in self._games:
                one.set_raw(obs_type == "ram", table)
        self._core = core().Vector(self._games, rules, self.batch_size)
        thread_cores = _cores(num_envs, num_threads, thread_affinity_offset)
        for thread_core in thread_cores:
            with _running_on(thread_core):
                self._core.add_thread()
        self._plays_directly = thread_cores == [-1]
        self._has_all = self.batch_size == num_envs
        shape = (self.batch_size, *seen)
        self._shape = shape
        self._buffers = None if copy else [np.zeros(shape, np.uint8) for _ in range(2)]
        self._obs: np.ndarray | None = None  # The environments write observations into `_obs`.
        self._all = np.arange(num_envs, dtype=np.int32)
        self._last: np.ndarray | None = None  # The environments that the last recv() returned
        self._new = np.full(num_envs, True)  # The environments that have not been seeded yet
        self._answerable = np.full(num_envs, False)  # The environments that have ended their step
        self._outstanding = 0  # The number of environments whose results were not received

    def reset(
        self, *, seed: int | Sequence[int | None] | np.ndarray | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Reset all environments, or the environments of options["reset_mask"], bool [num_envs]. For environments that
        are not reset, the last observation is returned. Environment i has the seed `seed` + i. `seed` may also be a
        list or an array [environments that are reset], in which None or a negative number means no seed. Seeds are
        below 2^32."""
        mask = (options or {}).get("reset_mask")
        which = self._all if mask is None else self._all[self._checked_mask(mask)]
        seeds = _seeds(seed, which, self._new)
        self._core.drain()
        self._begin()
        self._core.reset(which, seeds, self._obs if self._has_all else None)
        self._new[which] = False
        self._answerable[:], self._outstanding = False, max(len(which), 1)
        obs, _, _, _, info = self.recv()
        return obs, info

    def step(
        self, actions: np.ndarray, indices: Sequence[int] | np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Play a step in the environments `indices` (see send()). Return observations, rewards (int32), terminated,
        truncated and info."""
        self._send(actions, indices, directly=self._plays_directly)
        return self.recv()

    def send(self, actions: np.ndarray, indices: Sequence[int] | np.ndarray | None = None) -> None:
        """Send actions [batch_size] for the environments that the last recv() returned, without waiting. With
        `indices`, send actions [len(indices)] for the environments `indices`, whose results were received. If a batch
        contains all environments, other environments return their last observation with reward 0."""
        self._send(actions, indices, directly=False)

    def _send(self, actions: np.ndarray, indices: Sequence[int] | np.ndarray | None, directly: bool) -> None:
        actions = np.asarray(actions)
        if self._last is None:
            raise error.ResetNeeded("send() before reset()")
        ids = self._last if indices is None else self._some(indices)
        if actions.shape != ids.shape or actions.dtype.kind not in "iu":
            raise ValueError(
                f"actions of shape {actions.shape} and {actions.dtype}: must be whole numbers [{len(ids)}]"
            )
        if self._are_playing(ids):
            raise error.AlreadyPendingCallError("send() twice: call recv() first", "send")
        # This is noted before the actions are sent, so that a simultaneous send() of another thread raises an error.
        self._note(ids, len(ids))
        try:
            if self._has_all:
                self._begin()
            waiting = self._core.send(ids, actions, self._obs if self._has_all else None, directly)
            if waiting:
                raise error.ResetNeeded(
                    f"environments {waiting} have ended: reset(options={{'reset_mask': ...}}) first"
                )
        except BaseException:
            self._note(ids, -len(ids))
            if self._has_all:
                self._begin()  # The next batch again has the buffer that this one would have had.
            raise

    def recv(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Wait for the first `batch_size` environments that finish their step, and return their results."""
        n = self.batch_size
        if self._outstanding < (1 if self._has_all else n):
            raise error.NoAsyncCallError("recv() without send()", "recv")
        if not self._has_all:
            self._begin()
        obs = self._obs
        assert obs is not None
        reward, terminated, truncated, numbers, finished = self._core.recv(None if self._has_all else obs)
        # After Ctrl-C, recv() can be called again.
        self._last = self._all if self._has_all else numbers[0].copy()
        self._note(self._last, -self._outstanding if self._has_all else -n)
        info: dict[str, Any] = dict(zip(INFO, numbers, strict=True))
        if finished:
            final_obs = obs.copy()
            final = numbers.copy()
            ended = np.empty(n, bool)
            self._core.final(final_obs, final, ended)
            info |= {"final_obs": final_obs, "_final_obs": ended}
            info |= {"final_info": dict(zip(INFO, final, strict=True)), "_final_info": ended.copy()}
        return obs, reward, terminated, truncated, info

    def clone_state(self, indices: Sequence[int] | None = None) -> list[bytes]:
        """Return the state of each environment, or of the environments in `indices`, for `restore_state`. A state
        contains everything that determines later steps: the console, the stack of observations, and the streams of
        sticky actions and no-ops. A state has about 100 kB with a stack of 4."""
        which = self._checked_indices(indices)
        if self._last is None:
            raise error.ResetNeeded("clone_state() before reset()")
        return list(self._core.save(which))

    def restore_state(
        self, states: Sequence[bytes], indices: Sequence[int] | None = None, include_rng: bool = True
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Restore the states of all environments, or of the environments `indices`. Return observations and info of all
        environments.

        Without `include_rng`, the random streams of sticky actions and no-ops are not restored, and continue. A state
        may come from any environment of any VectorEnv with the same game, mode, stack_num and obs_type. Raises
        ValueError for a state that does not fit; the environments before it in the list are then already restored.
        """
        which = self._checked_indices(indices)
        if len(states) != len(which):
            raise ValueError(f"{len(states)} states for {len(which)} environments")
        if not self._has_all:
            raise ValueError(f"restore_state with batch_size={self.batch_size}: must be num_envs={self.num_envs}")
        if self._last is None and len(np.unique(which)) < self.num_envs:
            raise error.ResetNeeded("restore_state of some environments before the first reset of all")
        self._core.restore(which, list(states), include_rng)
        self._new[which] = False
        nothing = np.empty(0, np.int32)
        self._begin()
        self._core.reset(nothing, nothing.astype(np.int64), self._obs)
        self._outstanding = 1
        obs, _, _, _, info = self.recv()
        return obs, info

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Return each environment's screen [210, 160, 3] uint8, or None with a warning without a `render_mode`."""
        if self.render_mode is None:
            logger.warn("render() without a render mode: create the environment with render_mode='rgb_array'")
            return None
        self._checked_indices(None)
        return tuple(game.mapped(self._palette, 3) for game in self._games)

    def ale(self, index: int) -> AleView:
        """Return an object with those methods of ale-py's ALEInterface that read the state of environment `index`. They
        can be called only between two steps."""
        (which,) = self._checked_indices([index])
        return AleView(self._arguments[0], self._games[which])

    def get_action_meanings(self) -> list[str]:
        """Return the names of the actions, such as NOOP and UPFIRE."""
        return [ACTION_MEANINGS[code] for code in self.action_codes]

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, by the module copy or by pickle, continues exactly as this VectorEnv does, on threads of its own."""
        if self.closed:
            raise error.ClosedEnvironmentError("a copy of a closed VectorEnv: copy it before close()")
        if not self._has_all:
            raise ValueError(f"a copy with batch_size={self.batch_size}: must be num_envs={self.num_envs}")
        states = None if self._last is None else self.clone_state()
        return _copy, (type(self), *self._arguments, states, {"spec": self.spec, "metadata": self.metadata})

    def close_extras(self, **kwargs: Any) -> None:
        """End the emulator's threads. Later calls, and waiting calls of other threads, raise ClosedEnvironmentError."""
        self._core.stop()

    def _begin(self) -> None:
        if self._buffers is None:
            self._obs = np.empty(self._shape, np.uint8)
        else:
            self._buffers.reverse()
            self._obs = self._buffers[0]

    def _checked_indices(self, indices: Sequence[int] | np.ndarray | None) -> np.ndarray:
        which = np.arange(self.num_envs) if indices is None else np.asarray(indices)
        fits = which.ndim == 1 and (which.dtype.kind in "iu" or not which.size)
        if not fits or (which.size and not 0 <= which.min() <= which.max() < self.num_envs):
            raise ValueError(f"indices={indices!r}: must be whole numbers from 0 to {self.num_envs - 1}")
        if self._last is not None and self._are_playing(which):
            raise error.AlreadyPendingCallError("environments that are playing a step: call recv() first", "indices")
        return which.astype(np.int32)

    def _are_playing(self, ids: np.ndarray) -> bool:
        """Return whether a result of the environments `ids` was not received. A batch of all environments is one."""
        return self._outstanding > 0 if self._has_all else not self._answerable[ids].all()

    def _note(self, ids: np.ndarray, begun: int) -> None:
        """Note that `begun` environments begin a step, or have ended it if `begun` is negative."""
        self._outstanding += begun
        if not self._has_all:
            self._answerable[ids] = begun < 0

    def _some(self, indices: Sequence[int] | np.ndarray) -> np.ndarray:
        if not len(indices) or len(np.unique(indices)) < len(indices):
            raise ValueError(f"indices={indices!r}: must be one or more different environments")
        return self._checked_indices(indices)

    def _checked_mask(self, mask: Any) -> np.ndarray:
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (self.num_envs,):
            raise ValueError(f"reset_mask={mask!r}: must be an array of bool [{self.num_envs}]")
        if not self._has_all:
            raise ValueError(f"reset_mask with batch_size={self.batch_size}: must be num_envs={self.num_envs}")
        if not mask.all() and self._last is None:
            raise error.ResetNeeded("reset_mask before the first reset of all environments")
        return mask


def _copy(
    cls: type[VectorEnv],
    game: str,
    num_envs: int,
    options: dict[str, Any],
    states: list[bytes] | None,
    attributes: dict[str, Any],
) -> VectorEnv:
    env = cls(game, num_envs, **options)
    for name, value in attributes.items():
        setattr(env, name, value)
    if states is not None:
        env.restore_state(states)
    return env


def _cores(num_envs: int, num_threads: int, offset: int) -> list[int]:
    """Return the core of each emulator thread; -1 means any core."""
    if offset >= 0 and not hasattr(os, "sched_setaffinity"):
        raise ConfigError(f"thread_affinity_offset={offset}: this system cannot pin threads; must be -1")
    allowed = hardware.allowed_cores()
    n = num_threads or min(len(hardware.usable_cores()), num_envs)
    return [-1 if offset < 0 else allowed[(offset + i) % len(allowed)] for i in range(n)]


@contextlib.contextmanager
def _running_on(core: int) -> Iterator[None]:
    """Return a context manager in which the calling thread, and every thread that it starts, run on a core; -1 means
    any core."""
    if core < 0:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _seeds(seed: int | Sequence[int | None] | np.ndarray | None, which: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Return seeds [len(which)] int64, where a negative number means no seed. Without a seed, an environment's first
    seed is drawn from the system's random numbers."""
    if isinstance(seed, list | tuple):
        seed = np.array([-1 if one is None else one for one in seed])
    if seed is None:
        seeds = np.full(len(which), -1, np.int64)
    elif isinstance(seed, int | np.integer) and not isinstance(seed, bool):
        seeds = int(seed) + np.arange(len(which), dtype=np.int64)
    elif isinstance(seed, np.ndarray) and seed.dtype.kind in "iu" and seed.shape == which.shape:
        seeds = seed.astype(np.int64)
    else:
        raise ValueError(f"seed={seed!r}: must be a whole number, or an array of them [{len(which)}]")
    if len(seeds) and seeds.max() >= 2**32:
        raise ValueError(f"seed={seeds.max()}: must be below 2^32")
    random = np.frombuffer(os.urandom(8 * len(which)), np.int64) & (2**31 - 1)
    return np.where((seeds < 0) & new[which], random, seeds)
