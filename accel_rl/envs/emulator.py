"""Atari games on this project's emulator, with the same rules as in ale.py. One call of the compiled core steps a batch
of games.

    | ale.py          n envs, each:  act, act, act, screen, act, screen, maximum, resize     in Python
    | EmulatorBatch   n envs:        one call that steps all and writes frame, reward, flags     without the GIL

Frames, rewards, flags and resets equal those of `AtariEnv` with the same seed. `AtariEnv` and the environments of this
module can restore each other's saved states.
"""

from importlib.metadata import version

import numpy as np

from accel_rl.data.rollout_arrays import Step
from accel_rl.data.spec import EnvSpec
from accel_rl.emulator import palette
from accel_rl.emulator.counter import Counter, CounterState, start_at
from accel_rl.emulator.env_core import make_env_core, step_env_cores
from accel_rl.emulator.games import ACTION_MEANINGS, action_codes, check_switches, games
from accel_rl.envs.colors import luminance
from accel_rl.envs.environment import Env, episode_rng, pack_state, unpack_state
from accel_rl.envs.episode_info import FORCED, INFO_BYTES
from accel_rl.envs.protocols import FRAMES, Protocol
from accel_rl.envs.reserved import ReservedEnv
from accel_rl.envs.sequential import SequentialEnv
from accel_rl.envs.starts import SavedStarts
from accel_rl.text.errors import ConfigError, nearest


class EmulatorEnv:
    """One Atari game, played with this project's emulator. Arguments and episodes are those of `AtariEnv`.

    With `counter`, each random number is a function of seed, episode and step (see emulator/counter.py), as in the
    device engine. Raises ConfigError if the game is not emulated, or if the emulator is not compiled.
    """

    def __init__(
        self,
        game: str,
        protocol: Protocol,
        seed: int,
        training: bool = True,
        cached: bool = False,
        counter: bool = False,
        translate: bool = True,
    ) -> None:
        if game not in games():
            raise ConfigError(f"game {game!r} is not emulated: use env.backend=ale" + nearest(game, games()))
        self.game = game
        self.rules = rules = protocol if training else protocol.for_evaluation()
        self.seed, self.episode = seed, 0
        self.counter = Counter(rules.noop_max, rules.frame_skip, cached, rules.noop_min) if counter else None
        if counter and rules.fire_reset != "none":
            raise ConfigError(
                f"fire_reset={rules.fire_reset}: must be none with randomness=counter (--sampler.engine device)"
            )
        self._rng = episode_rng(seed, 0)
        check_switches(game, rules.mode, rules.difficulty)
        codes = action_codes(game, rules.full_action_set)
        self.codes = np.array(codes, np.int32)
        self.presses = {after: rules.presses(codes, after) for after in (False, True)}
        self.sticky = rules.repeat_action_probability > 0
        self.spec = EnvSpec(
            name=game,
            frame_shape=FRAMES[rules.frame],
            frame_dtype="uint8",
            n_actions=len(codes),
            stack=rules.stack,
            action_meanings=tuple(ACTION_MEANINGS[code] for code in codes),
            protocol={
                **rules.to_dict(),
                "training": training,
                "ale_py": version("ale-py"),
                "backend": "emulator",
                **({"randomness": "counter"} if counter else {}),
            },
            info_bytes=INFO_BYTES if self.presses[True] else 0,
        )
        self._forced = 0.0
        self._alone = Step.empty(1, self.spec)
        self._draws = np.zeros((1, rules.frame_skip))
        self._cached, self._translate = cached, translate
        self.starts: SavedStarts | None = None  # With `starts`, episodes begin in saved states instead of after resets.
        self.load()

    def load(self) -> None:
        rules = self.rules
        self.core = make_env_core(
            self.game,
            rules.frame,
            luminance(games()[self.game]["height"]),
            rules.frame_skip,
            rules.max_episode_steps,
            rules.life_loss_ends_return,
            rules.repeat_action_probability,
            rules.mode,
            rules.difficulty,
            translate=self._translate,
            outlives=False,  # The game's compiler process ends with the run.
        )
        self._start: bytes | None = None
        if self._cached and self.counter is None:
            self.core.reset()
            self._start = self.core.save()

    def reset(self, frame: np.ndarray, episode: int | None = None) -> None:
        episode = self.episode if episode is None else episode
        self._rng, self.episode, self._forced = episode_rng(self.seed, episode), episode + 1, 0.0
        if self.starts is not None:
            self._reset_to_saved(self.starts, episode, frame)
            return
        if self.counter is not None:
            start_at(self.core, *self.counter.start(self.seed, episode))
        else:
            noops = int(self._rng.integers(self.rules.noop_min, self.rules.noop_max + 1))
            self._begin()
            for _ in range(noops):
                self.core.act(0)
                if self.core.over:
                    self._begin()
        self.core.begin(self._alone.frame)
        self._press_after_reset()
        frame[:] = self._alone.frame[0]

    def _press_after_reset(self) -> None:
        """Play the automatic actions of `Protocol.presses`, which precede the agent's actions. If the game ends during
        the automatic actions, reset the game again."""
        core, p = self.core, self.rules.repeat_action_probability
        for code, _ in self.presses[False]:
            if self.rules.fire_reset == "frame":
                core.held = code if not self.sticky or self._rng.random() >= p else core.held
                core.act(core.held)
                if core.over:
                    self._begin()
                core.observe(self._alone.frame)
            elif self._press(code):
                self._begin()
        if self.presses[False]:
            held = core.held
            steps = core.steps
            shown = self._alone.frame.copy()
            core.begin(self._alone.frame)
            core.held, core.steps = held, steps
            self._alone.frame[:] = shown

    def _press(self, code: int) -> bool:
        """Play the joystick action `code` for one agent step. Return whether the episode has ended."""
        if self.sticky:
            self.draw(self._draws[0])
        draws = self._draws if self.sticky else None
        step_env_cores([self.core], np.array([code], np.int32), draws, self._alone)
        return bool(self._alone.ended[0])

    def press_after_life(self, out: Step, i: int) -> None:
        """Play the actions that follow a lost life (`Protocol.presses`), and write the last frame to row `i` of
        `out`."""
        for code, _ in self.presses[True]:
            out.ended[i] = self._press(code)
            self._forced += float(self._alone.reward[0])
            if out.ended[i]:
                break
        out.frame[i] = self._alone.frame[0]

    def _reset_to_saved(self, starts: SavedStarts, episode: int, frame: np.ndarray) -> None:
        frames, code = starts.place(self, episode)
        self.core.begin(self._alone.frame)
        self.core.steps, self.core.held = -(-frames // self.rules.frame_skip), code
        frame[:] = self._alone.frame[0]

    def _begin(self) -> None:
        if self._start is None:
            self.reset_console()
        else:
            self.core.restore(self._start)

    def reset_console(self) -> None:
        self.core.reset()

    def play_frame(self, code: int) -> None:
        self.core.act(code)

    def save_console(self) -> bytes:
        return self.core.save()

    def restore_console(self, console: bytes) -> None:
        self.core.restore(console)

    def ram(self) -> bytes:
        return self.core.ram().tobytes()

    def draw(self, draws: np.ndarray) -> None:
        """Write the random numbers of a step's sticky actions into `draws` [frame_skip] float64."""
        if self.counter is not None:
            draws[:] = self.counter.sticky(self.seed, self.episode - 1, self.core.steps)
        else:
            self._rng.random(out=draws)

    def step(self, action: int, frame: np.ndarray) -> tuple[float, bool, bool, bool]:
        out = self._alone
        if self.sticky:
            self.draw(self._draws[0])
        step_env_cores([self.core], self.codes[[action]], self._draws if self.sticky else None, out)
        reward = float(out.reward[0])
        terminated = bool(out.terminated[0])
        truncated = bool(out.truncated[0])
        if self.presses[True] and terminated and not out.ended[0]:
            self.press_after_life(out, 0)  # `out` then has the results of the last automatic action.
        frame[:] = out.frame[0]
        return reward, terminated, truncated, bool(out.ended[0])

    @property
    def episode_info(self) -> dict[str, float]:
        return {FORCED: self._forced} if self._forced else {}

    def get_state(self) -> bytes:
        core = self.core
        if self.counter is not None:
            state = CounterState(core.play(), core.steps, core.held, core.lives_before, self.seed, self.episode - 1)
            return pack_state({"kind": "counter", "game": self.game}, state.to_bytes())
        header = {
            "kind": "emulator",
            "game": self.game,
            "steps": core.steps,
            "lives": core.lives_before,
            "held": core.held,
            "forced": self._forced,
            "seed": self.seed,
            "episode": self.episode,
            "rng": self._rng.bit_generator.state,
        }
        return pack_state(header, core.save())

    def set_state(self, state: bytes) -> None:
        if self.counter is not None:
            self._set_counter_state(CounterState.from_bytes(unpack_state(state, kind="counter", game=self.game)[1]))
            return
        header, blob = unpack_state(state, kind="emulator", game=self.game)
        core = self.core
        core.restore(blob)
        core.steps = header["steps"]
        core.lives_before = header["lives"]
        core.held, self._forced = header["held"], header["forced"]
        self.seed, self.episode = header["seed"], header["episode"]
        self._rng.bit_generator.state = header["rng"]

    def _set_counter_state(self, state: CounterState) -> None:
        core = self.core
        core.set_play(state.play)
        core.steps = state.steps
        core.held = state.held
        core.lives_before = state.lives_before
        self.seed, self.episode = state.seed, (state.number + 1) % 2**32

    def screen_rgb(self) -> np.ndarray:
        return self.core.mapped(palette.rgb(self.game), 3)

    def lives(self) -> int:
        return self.core.lives_before

    def close(self) -> None: ...


def _playing(env: Env) -> EmulatorEnv:
    one = env.playing if isinstance(env, ReservedEnv) else env
    assert isinstance(one, EmulatorEnv)
    return one


class EmulatorBatch(SequentialEnv):
    """A `SequentialEnv` that steps all its environments in one call. The environments are `EmulatorEnv`s, or
    `ReservedEnv`s of `EmulatorEnv`s."""

    def _play(self, action: np.ndarray, skipped: np.ndarray | None, out: Step) -> None:
        if not out.frame.flags.c_contiguous:
            return super()._play(action, skipped, out)
        envs = [_playing(env) for env in self.envs]
        first = envs[0]
        codes = first.codes[np.maximum(action, 0)]
        if skipped is not None:
            codes[skipped] = -1
        draws = None
        if first.sticky:
            draws = np.zeros((self.n, first.rules.frame_skip))
            for env, code, row in zip(envs, codes.tolist(), draws, strict=True):
                if code >= 0:
                    env.draw(row)
        step_env_cores([env.core for env in envs], codes, draws, out)
        if first.presses[True]:
            for i in np.flatnonzero(out.terminated & ~out.ended & (codes >= 0)):
                envs[i].press_after_life(out, int(i))
