"""Atari games played by ale-py with the rules of a `Protocol`."""

from importlib.metadata import version

import numpy as np
from ale_py import ALEInterface, ALEState, LoggerMode, roms

from accel_rl.data.spec import EnvSpec
from accel_rl.envs.atari_games import INEXACT_RESTORE, check_game
from accel_rl.envs.environment import episode_rng, pack_state, unpack_state
from accel_rl.envs.episode_info import FORCED, INFO_BYTES
from accel_rl.envs.preprocess import make_preprocessor
from accel_rl.envs.protocols import FRAMES, Protocol
from accel_rl.envs.starts import SavedStarts
from accel_rl.text.errors import ConfigError

ALE_PY = version("ale-py")


class AtariEnv:
    """One Atari game, played with ale-py's ALEInterface.

    `seed` is a whole number >= 0 that determines no-ops and sticky actions. A training environment plays by `protocol`,
    and an evaluation environment by `protocol.for_evaluation()`. With `cached`, each episode begins by restoring the
    state after the first reset, instead of by a reset. (In the games of `unclean_resets`, later resets lead to other
    states.) Raises ConfigError for an unknown game, and for a mode or difficulty that the game does not have.

    If the game ends within a frame skip, the agent step ends immediately, and its frame is the last screen.
    `terminated` and `truncated` are never both True: the time limit is ignored in a step in which the game ends or a
    life is lost.

    `exact_restore` is False for games whose states ale-py 0.12.1 restores inexactly: such a game may continue
    differently after `set_state`.
    """

    def __init__(self, game: str, protocol: Protocol, seed: int, training: bool = True, cached: bool = False) -> None:
        check_game(game)
        self.game = game
        self.rules = rules = protocol if training else protocol.for_evaluation()
        self.exact_restore = game not in INEXACT_RESTORE
        self.seed, self.episode = seed, 0
        self._rng = episode_rng(seed, 0)
        self._cached = cached
        self.starts: SavedStarts | None = None  # With `starts`, episodes begin in saved states instead of after resets.
        self._repeat = rules.repeat_action_probability
        self.load()
        ale = self._ale
        actions = ale.getLegalActionSet() if rules.full_action_set else ale.getMinimalActionSet()
        self.codes = [a.value for a in actions]
        self._preprocess = make_preprocessor(rules.frame, *ale.getScreenDims())
        self._screens = list(self._preprocess.screens)
        self._life_loss = rules.life_loss_ends_return
        self._rest = range(rules.frame_skip - 1, 0, -1)
        self._max_steps = rules.max_episode_steps
        self._steps = 0
        self._lives = ale.lives()
        self._forced = 0.0
        self.presses = {after: rules.presses(self.codes, after) for after in (False, True)}
        self.spec = EnvSpec(
            name=game,
            frame_shape=FRAMES[rules.frame],
            frame_dtype="uint8",
            n_actions=len(actions),
            stack=rules.stack,
            action_meanings=tuple(a.name for a in actions),
            protocol={**rules.to_dict(), "training": training, "ale_py": ALE_PY, "backend": "ale"},
            info_bytes=INFO_BYTES if self.presses[True] else 0,
        )
        self._pools = any(frames > 1 for _, frames in self.presses[False])
        self._held = 0  # The action of the last emulated frame, which a sticky action repeats
        self._actions = bytearray()
        self._last = self._preprocess.last
        self._write = self._preprocess.both if rules.frame_skip > 1 else self._last

    def load(self) -> None:
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self._ale = ale = ALEInterface()
        ale.setFloat("repeat_action_probability", 0.0)  # Sticky actions are drawn in `_sticky_act` instead.
        # ale-py draws nothing from this seed, but stores the seed (by default the time of day) in saved states.
        ale.setInt("random_seed", self.seed & 0x7FFFFFFF)
        rom = roms.get_rom_path(self.game)
        assert rom is not None
        ale.loadROM(rom)
        self._set_switches()
        # Steps are faster if ale-py's methods are looked up only once.
        self._over = ale.game_over
        self._screen = ale.getScreen
        self._count = ale.lives
        self._act = self._sticky_act if self._repeat > 0 else ale.act
        self._start: tuple[ALEState, np.ndarray] | None = None
        if self._cached:
            ale.reset_game()
            self._start = ale.cloneState(include_rng=True), ale.getScreen()

    def reset(self, frame: np.ndarray, episode: int | None = None) -> None:
        episode = self.episode if episode is None else episode
        self._rng, self.episode = episode_rng(self.seed, episode), episode + 1
        if self.starts is not None:
            self._reset_to_saved(self.starts, episode, frame)
            return
        ale, self._held, self._forced = self._ale, 0, 0.0
        noops = self._rng.integers(self.rules.noop_min, self.rules.noop_max + 1)
        self._actions.clear()
        self._begin()
        for _ in range(noops):
            ale.act(0)
            if ale.game_over():
                self._begin()
        self._steps = 0
        self._press(after_life=False)
        self._lives = ale.lives()
        if noops or self.presses[False] or self._start is None:
            self._screen(self._screens[1])
        else:  # After a restore, ale-py does not draw the screen before the next frame.
            self._screens[1][:] = self._start[1]
        (self._write if self._pools else self._last)(frame)

    def _reset_to_saved(self, starts: SavedStarts, episode: int, frame: np.ndarray) -> None:
        """The frames before the start point count towards the episode's time limit."""
        frames, self._held = starts.place(self, episode)
        self._forced = 0.0
        self._actions.clear()
        self._steps = -(-frames // self.rules.frame_skip)
        self._lives = self._ale.lives()
        self._screen(self._screens[1])
        self._last(frame)

    def _begin(self) -> None:
        if self._start is None:
            self.reset_console()
        else:
            self._ale.restoreState(self._start[0])

    def _press(self, after_life: bool) -> bool:
        """Play the actions of `Protocol.presses`, which precede the agent's actions after a reset or a lost life.
        Return whether the episode has ended. If the game ends during automatic actions after a reset, the game is reset
        again."""
        for code, frames in self.presses[after_life]:
            for frames_left in range(frames, 0, -1):
                if frames_left == 1:
                    self._screen(self._screens[0])
                points = self._act(code)
                self._forced += points if after_life else 0
                if self._over():
                    if after_life:
                        return True
                    self._begin()
                    break
            self._steps += self.rules.fire_reset == "steps"
            if after_life and self._steps >= self._max_steps:
                return True
        return False

    def reset_console(self) -> None:
        self._ale.reset_game()

    def play_frame(self, code: int) -> None:
        self._ale.act(code)

    def save_console(self) -> bytes:
        return self._ale.cloneState(include_rng=True).serialize()

    def restore_console(self, console: bytes) -> None:
        self._ale.restoreState(ALEState(console))

    def ram(self) -> bytes:
        return self._ale.getRAM().tobytes()

    def step(self, action: int, frame: np.ndarray) -> tuple[float, bool, bool, bool]:
        act, over = self._act, self._over
        first, last = self._screens
        code = self.codes[action]
        self._actions.append(code)
        reward = act(code)
        ended = over()
        write = self._write
        for frames_left in self._rest:
            if ended:
                write = self._last
                break
            if frames_left == 1:
                self._screen(first)  # The observation is the maximum of two frames, because sprites flicker.
            reward += act(code)
            ended = over()
        self._screen(last)
        write(frame)
        lives = self._count()
        terminated = ended or (self._life_loss and lives < self._lives)
        self._lives = lives
        self._steps += 1
        if self.presses[True] and terminated and not ended:
            ended = self._press(after_life=True)
            self._lives = self._count()
            self._screen(last)
            (self._last if self._over() else self._write)(frame)
        if self._steps >= self._max_steps:
            return reward, terminated, not terminated, True
        return reward, terminated, False, ended

    @property
    def episode_info(self) -> dict[str, float]:
        """The points of the current episode for which the agent gets no reward, because the protocol played the actions
        (`FORCED`)."""
        return {FORCED: self._forced} if self._forced else {}

    @property
    def actions(self) -> bytes:
        """The actions since the last reset, one byte per step, as codes of the 18 joystick actions."""
        return bytes(self._actions)

    def get_state(self) -> bytes:
        header = {
            "kind": "atari",
            "game": self.game,
            "ale_py": ALE_PY,
            "steps": self._steps,
            "lives": self._lives,
            "held": self._held,
            "forced": self._forced,
            "seed": self.seed,
            "episode": self.episode,
            "rng": self._rng.bit_generator.state,
        }
        return pack_state(header, self.save_console())

    def set_state(self, state: bytes) -> None:
        """Restore a saved state. Until the next step, `screen_rgb` returns a wrong screen."""
        header, blob = unpack_state(state, kind="atari", game=self.game, ale_py=ALE_PY)
        self._ale.restoreState(ALEState(blob))
        self._steps = header["steps"]
        self._lives = header["lives"]
        self._held, self._forced = header["held"], header["forced"]
        self.seed, self.episode = header["seed"], header["episode"]
        self._rng.bit_generator.state = header["rng"]

    def screen_rgb(self) -> np.ndarray:
        """Return the current screen [rows, 160, 3] uint8, for a video."""
        return self._ale.getScreenRGB()

    def lives(self) -> int:
        """Return the number of lives, or 0 in a game without lives."""
        return self._lives

    def close(self) -> None: ...

    def _sticky_act(self, code: int) -> int:
        """Sticky actions (Machado et al. 2018, section 5.2). ale-py's own sticky actions are not used, because ale-py
        forgets the previous action when a state is restored."""
        if self._rng.random() >= self._repeat:
            self._held = code
        return self._ale.act(self._held)

    def _set_switches(self) -> None:
        rules, ale = self.rules, self._ale
        for name, value, available, set_switch in (
            ("mode", rules.mode, ale.getAvailableModes(), ale.setMode),
            ("difficulty", rules.difficulty, ale.getAvailableDifficulties(), ale.setDifficulty),
        ):
            if value is None:
                continue
            if value not in available:
                allowed = ", ".join(str(int(v)) for v in sorted(available))
                raise ConfigError(f"{name}={value} is not one of {self.game}'s: must be one of {allowed}")
            set_switch(value)
