"""VectorEnv is a Gymnasium vector environment of emulated games, with the arguments and episodes of ale-py's
AtariVectorEnv.

    envs = VectorEnv("breakout", num_envs=8)       # instead of AtariVectorEnv("breakout", num_envs=8)
    obs, info = envs.reset(seed=1)                 # obs [8, 4, 84, 84] uint8
    obs, reward, terminated, truncated, info = envs.step(actions)
    envs.send(actions); ...; envs.recv()           # the same in two calls: threads play meanwhile

With the same seed and actions, VectorEnv gives the same results as AtariVectorEnv, with two exceptions. In an episode's
last observation, the newest frame differs, because AtariVectorEnv 0.12.1 repeats an earlier screen instead of reading
the last one. When life_loss_info reports a lost life in SAME_STEP mode, AtariVectorEnv does not write final_obs, but
VectorEnv does. VectorEnv additionally supports `AutoresetMode.DISABLED`, `info["final_info"]` with the masks of
Gymnasium 1.x in SAME_STEP mode, and `copy=False`.
"""

import os
from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np
from gymnasium import error, logger
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from accel_rl.emulator import palette, polar_joystick
from accel_rl.emulator.ale_view import AleView
from accel_rl.emulator.atari import core
from accel_rl.emulator.emulated_vector_env import EmulatedVectorEnv
from accel_rl.emulator.env_core import AtariEnvCore, make_env_core
from accel_rl.emulator.games import FIRE
from accel_rl.emulator.vector_options import MODES, NO_LIMIT, VectorOptions, keywords_of
from accel_rl.machine import hardware

Numbers = NDArray[np.int32]
Flags = NDArray[np.bool_]
Observations = NDArray[np.uint8]
Indices = Sequence[int] | np.ndarray
Seeds = int | Sequence[int | None] | np.ndarray | None


class GameNumbers(TypedDict):
    """Each array is [batch_size]."""

    env_id: Numbers
    lives: Numbers
    frame_number: Numbers
    episode_frame_number: Numbers


class VectorInfo(GameNumbers, total=False):
    """The info of a step. With several games, `game` is the index of each environment's game in `options.games`. The
    keys with `final` exist if an episode ends in SAME_STEP mode. Rows of `final_obs` and `final_info` are undefined
    where the masks `_final_obs` and `_final_info` are false."""

    game: Numbers
    final_obs: Observations
    _final_obs: Flags
    final_info: GameNumbers
    _final_info: Flags


StepResult = tuple[Observations, Numbers, Flags, Flags, VectorInfo]
"""Observations, rewards, terminated, truncated and info."""


class VectorEnv(EmulatedVectorEnv):
    """A batch of environments, which C++ threads step without the GIL. The arguments are those of `VectorOptions`.

    recv() returns the results of the first `batch_size` environments that finish a step. `info["env_id"]` lists the
    returned environments, to which the next send() sends actions. If several batches are received before actions are
    sent, send(actions, env_id) must name the environments.

    Raises ConfigError for arguments that only ale-py's AtariVectorEnv supports.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012  # as Gymnasium's
    _envpool = False  # True selects EnvPool's rules for episodes (envpool_env.h, accel_rl.compat.envpool).
    _obs: Observations | None = None  # Environments write observations here.
    _last: Numbers | None = None  # Indices of the environments that the last recv() returned
    _outstanding = 0  # Number of environments whose results were not received

    @keywords_of(VectorOptions)
    def __init__(self, options: VectorOptions) -> None:
        super().__init__(options)
        index = np.arange(self.num_envs, dtype=np.int32) % len(options.games)
        self._index_of_game = index if index.any() else None
        self._game_of = [options.games[i] for i in index]
        self._games = [_load(options, game) for game in self._game_of]
        self._core = core().Vector(self._games, _rules(options, self.action_codes, self._envpool), self.batch_size)
        self._plays_directly = _start_threads(self._core, options)
        self._has_all = self.batch_size == self.num_envs
        self._shape = (self.batch_size, *options.observation_shape)
        self._buffers = None if options.copy else [np.zeros(self._shape, np.uint8) for _ in range(2)]
        self._all = np.arange(self.num_envs, dtype=np.int32)
        self._new = np.full(self.num_envs, True)  # Which environments were never seeded
        self._answerable = np.full(self.num_envs, False)  # Which environments wait for an action

    def reset(self, *, seed: Seeds = None, options: dict[str, Any] | None = None) -> tuple[Observations, VectorInfo]:  # type: ignore[override]  # A TypedDict is no dict.
        """Reset all environments, or the environments of options["reset_mask"], bool [num_envs]. Environments that are
        not reset return their last observation. Environment i gets the seed `seed` + i. `seed` may also be a list or an
        array with one seed below 2^32 for each environment that is reset; None or a negative number means no seed."""
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

    def step(self, actions: np.ndarray, indices: Indices | None = None) -> StepResult:  # type: ignore[override]
        """Play a step in the environments `indices` (see send()), and return its results."""
        self._send(actions, indices, directly=self._plays_directly)
        return self.recv()

    def send(self, actions: np.ndarray, indices: Indices | None = None) -> None:
        """Send actions [batch_size], or continuous actions [batch_size, 3], to the environments that the last recv()
        returned, without waiting for results. With `indices`, send actions [len(indices)] to the environments
        `indices`, whose results must have been received. If a batch contains all environments, those that are not in
        `indices` return their last observation with reward 0."""
        self._send(actions, indices, directly=False)

    def _send(self, actions: np.ndarray, indices: Indices | None, directly: bool) -> None:
        actions = np.asarray(actions)
        if self._last is None:
            raise error.ResetNeeded("send() before reset()")
        ids = self._last if indices is None else self._some(indices)
        turns = np.empty(0, np.int32)
        if self.options.continuous:
            actions, turns = self._moved(actions, len(ids))
        elif actions.shape != ids.shape or actions.dtype.kind not in "iu":
            raise ValueError(
                f"actions of shape {actions.shape} and {actions.dtype}: must be whole numbers [{len(ids)}]"
            )
        if self._are_playing(ids):
            raise error.AlreadyPendingCallError("send() twice: call recv() first", "send")
        # The step is recorded before the actions are sent, so that a simultaneous send() of another thread fails.
        self._note(ids, len(ids))
        try:
            if self._has_all:
                self._begin()
            waiting = self._core.send(ids, actions, self._obs if self._has_all else None, directly, turns)
            if waiting:
                raise error.ResetNeeded(
                    f"environments {waiting} have ended: reset(options={{'reset_mask': ...}}) first"
                )
        except BaseException:
            self._note(ids, -len(ids))
            if self._has_all:
                self._begin()  # No action was sent, so the two observation buffers are swapped back.
            raise

    def _moved(self, actions: np.ndarray, n: int) -> tuple[np.ndarray, Numbers]:
        """Convert continuous actions [n, 3] to joystick actions [n] and changes of a paddle's resistance [n]."""
        if actions.shape != (n, 3) or actions.dtype.kind != "f":
            raise ValueError(f"actions of shape {actions.shape} and {actions.dtype}: must be floats [{n}, 3]")
        return polar_joystick.moved(actions.astype(np.float32), self.options.continuous_action_threshold)

    def recv(self) -> StepResult:
        """Wait for the first `batch_size` environments that finish their step, and return their results."""
        n = self.batch_size
        if self._outstanding < (1 if self._has_all else n):
            raise error.NoAsyncCallError("recv() without send()", "recv")
        if not self._has_all:
            self._begin()
        obs = self._obs
        assert obs is not None
        reward, terminated, truncated, numbers, finished = self._core.recv(None if self._has_all else obs)
        # The results are recorded as received only after the wait, so that recv() can be called again after Ctrl-C.
        self._last = self._all if self._has_all else numbers[0].copy()
        self._note(self._last, -self._outstanding if self._has_all else -n)
        info = _by_name(numbers)
        if self._index_of_game is not None:
            info["game"] = self._index_of_game[info["env_id"]]
        if finished:
            final_obs = obs.copy()
            final = numbers.copy()
            ended = np.empty(n, bool)
            self._core.final(final_obs, final, ended)
            info |= {"final_obs": final_obs, "_final_obs": ended}
            info |= {"final_info": _by_name(final), "_final_info": ended.copy()}
        return obs, reward, terminated, truncated, info

    def clone_state(self, indices: Sequence[int] | None = None) -> list[bytes]:
        """Return the state of each environment, or of the environments `indices`, for `restore_state`. A state contains
        everything that determines later steps: the console, the stack of observations, and the random number generators
        of sticky actions and no-ops. With a stack of 4, a state has about 100 kB."""
        which = self._checked_indices(indices)
        if self._last is None:
            raise error.ResetNeeded("clone_state() before reset()")
        return list(self._core.save(which))

    def restore_state(
        self, states: Sequence[bytes], indices: Sequence[int] | None = None, include_rng: bool = True
    ) -> tuple[Observations, VectorInfo]:
        """Restore the states of all environments, or of the environments `indices`. Return observations and info of all
        environments.

        Without `include_rng`, the random number generators of sticky actions and no-ops are not restored. A state may
        come from any environment of any VectorEnv with the same game, mode, stack_num and obs_type. Raises ValueError
        for a state of another game, mode, stack_num or obs_type, after environments earlier in the list have been
        restored.
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
        """Return each environment's screen [210, 160, 3] uint8. Without a `render_mode`, warn and return None."""
        if self.render_mode is None:
            logger.warn("render() without a render mode: create the environment with render_mode='rgb_array'")
            return None
        self._checked_indices(None)
        each = zip(self._games, self._game_of, strict=True)
        return tuple(game.mapped(palette.rgb(name), 3) for game, name in each)

    def ale(self, index: int) -> AleView:
        """Return an object with the methods of ale-py's ALEInterface that read the state of environment `index`. The
        object must not be used while the environment plays a step."""
        (which,) = self._checked_indices([index])
        return AleView(self._game_of[which], self._games[which])

    def __reduce__(self) -> tuple[Any, ...]:
        """For copy and pickle. A copy continues exactly as the original, with its own threads."""
        if self.closed:
            raise error.ClosedEnvironmentError("a copy of a closed VectorEnv: copy it before close()")
        if not self._has_all:
            raise ValueError(f"a copy with batch_size={self.batch_size}: must be num_envs={self.num_envs}")
        states = None if self._last is None else self.clone_state()
        return _copy, (type(self), self.options, states, {"spec": self.spec, "metadata": self.metadata})

    def close_extras(self, **kwargs: Any) -> None:
        """End the emulator's threads. Later calls, and calls in which other threads are waiting, raise
        ClosedEnvironmentError."""
        self._core.stop()

    def _begin(self) -> None:
        if self._buffers is None:
            self._obs = np.empty(self._shape, np.uint8)
        else:
            self._buffers.reverse()
            self._obs = self._buffers[0]

    def _checked_indices(self, indices: Indices | None) -> np.ndarray:
        which = np.arange(self.num_envs) if indices is None else np.asarray(indices)
        fits = which.ndim == 1 and (which.dtype.kind in "iu" or not which.size)
        if not fits or (which.size and not 0 <= which.min() <= which.max() < self.num_envs):
            raise ValueError(f"indices={indices!r}: must be whole numbers from 0 to {self.num_envs - 1}")
        if self._last is not None and self._are_playing(which):
            raise error.AlreadyPendingCallError("environments that are playing a step: call recv() first", "indices")
        return which.astype(np.int32)

    def _are_playing(self, ids: np.ndarray) -> bool:
        """Return whether results of any of the environments `ids` have not been received. If a batch contains all
        environments, all results are received at once."""
        return self._outstanding > 0 if self._has_all else not self._answerable[ids].all()

    def _note(self, ids: np.ndarray, begun: int) -> None:
        """Record that the environments `ids` begin a step, or that their results were received. `begun` is the number
        of environments that begin a step, or the negative number of environments whose results were received."""
        self._outstanding += begun
        if not self._has_all:
            self._answerable[ids] = begun < 0

    def _some(self, indices: Indices) -> np.ndarray:
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
    cls: type[VectorEnv], options: VectorOptions, states: list[bytes] | None, attributes: dict[str, Any]
) -> VectorEnv:
    env = cls(**vars(options))
    for name, value in attributes.items():
        setattr(env, name, value)
    if states is not None:
        env.restore_state(states)
    return env


def _by_name(numbers: Any) -> VectorInfo:
    """Return the rows of the array `numbers` [4, batch_size] of the compiled core as a dict."""
    ids, lives, frames, episode_frames = numbers
    return {"env_id": ids, "lives": lives, "frame_number": frames, "episode_frame_number": episode_frames}


def _load(o: VectorOptions, game: str) -> AtariEnvCore:
    switches: dict[str, Any] = {"mode": o.mode, "difficulty": o.difficulty, "rom": o.rom, "translate": o.translate}
    loaded = make_env_core(game, "84x84", palette.GRAY, o.frameskip, NO_LIMIT, life_loss=False, **switches)
    if o.obs_type:
        tables = {"rgb": palette.rgb(game).tobytes(), "grayscale": palette.gray(game).tobytes(), "ram": b""}
        loaded.set_raw(o.obs_type == "ram", tables[o.obs_type])
    return loaded


def _rules(o: VectorOptions, codes: list[int], envpool: bool) -> dict[str, Any]:
    """Convert the options to the rules that the compiled core reads (StackedEnvRules in stacked_env.h)."""
    return {
        "stack": 1 if o.obs_type else o.stack_num,
        "noop_max": o.noop_max,
        "max_frames": o.max_num_frames_per_episode,
        "maxpool": o.maxpool,
        "fire": o.use_fire_reset and FIRE in o.action_codes(),
        "episodic_life": o.episodic_life,
        "life_loss_info": o.life_loss_info,
        "clips": o.reward_clipping,
        "autoreset": MODES.index(AutoresetMode(o.autoreset_mode)),
        "repeat_probability": o.repeat_action_probability,
        "codes": codes,
        "envpool": envpool,
    }


def _start_threads(vector: Any, o: VectorOptions) -> bool:
    """Start the threads of the compiled vector environment. Return whether step() may play in the calling thread, as
    with a single thread that is not pinned to a core."""
    n = o.num_threads or min(len(hardware.usable_cores()), o.num_envs)
    if o.thread_affinity_offset < 0:
        for _ in range(n):
            vector.add_thread()
        return n == 1
    allowed, before = hardware.allowed_cores(), os.sched_getaffinity(0)
    try:
        for i in range(o.thread_affinity_offset, o.thread_affinity_offset + n):
            # The thread that add_thread() starts inherits the CPU affinity of the calling thread.
            os.sched_setaffinity(0, {allowed[i % len(allowed)]})
            vector.add_thread()
    finally:
        os.sched_setaffinity(0, before)
    return False


def _seeds(seed: Seeds, which: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Return seeds [len(which)] int64. A negative number means no seed. An environment that was never seeded gets a
    random seed from the operating system if the caller gives none."""
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
