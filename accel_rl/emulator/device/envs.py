"""A batch of environments on a GPU, or on a CPU for tests. States, frames and rewards are in the device's memory."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from accel_rl.emulator.atari import core
from accel_rl.emulator.device.game import DeviceGame
from accel_rl.emulator.device.step import STATE, TABLES, play_on_host, step_arguments, step_atari

MOST_FINISHING = 256  # The kernel `finish` has 256 threads.


class DeviceStep(NamedTuple):
    """The results of one step, as tensors [n, ...] on the device."""

    frame: Tensor
    final_frame: Tensor
    age: Tensor
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    ended: Tensor
    valid: Tensor

    @classmethod
    def empty(cls, n: int, game: DeviceGame) -> "DeviceStep":
        def zeros(*shape: int, dtype: torch.dtype) -> Tensor:
            return torch.zeros(n, *shape, dtype=dtype, device=game.device)

        flags = (zeros(dtype=torch.bool) for _ in range(4))
        frame, final_frame = (zeros(*game.shape, dtype=torch.uint8) for _ in range(2))
        return cls(frame, final_frame, zeros(dtype=torch.uint8), zeros(dtype=torch.float32), *flags)


class DeviceEnvs:
    """A batch of n environments of one game. All random numbers of an episode are computed from the environment's seed
    and the episode's number."""

    def __init__(self, game: DeviceGame, seeds: list[int]) -> None:
        """`seeds`: one integer from 0 to 2^32 - 1 per environment."""
        functions = core().device
        self.game, self.n = game, len(seeds)
        sizes, self._words = functions.sizes, functions.words
        logged, finishing = sizes["logged"], min(self.n, MOST_FINISHING)
        self.state = {
            "envs": self._zeros(self._words["env"], self.n, dtype=torch.int32),
            "shots": self._zeros(2, self._words["shot"], self.n, dtype=torch.int32),
            "logs": self._zeros(self.n, 2, logged, dtype=torch.int32),
            "rows": self._zeros(self.n, 2, game.height + sizes["recorded"], sizes["row"] // 4, dtype=torch.int32),
            "shown": self._zeros(self.n, dtype=torch.uint8),
            "code": self._zeros(self.n, dtype=torch.uint8),
            "scratch": self._zeros(finishing, -(-sizes["scratch"] // 16) * 16, dtype=torch.uint8),
        }
        self.reseed(seeds)
        self._state, self._tables = [self.state[k] for k in STATE], [game.tables[k] for k in TABLES]
        rules = game.rules
        self._rules = [
            game.rom_bytes, game.kind, rules.frame_skip, rules.max_steps, int(rules.life_loss),
            game.observation, rules.oldest, game.start_rows, game.start_columns,
            int(rules.one_life),
        ]  # fmt: skip
        self._no_action = self._zeros(self.n, dtype=torch.int64)

    def _zeros(self, *shape: int, dtype: torch.dtype) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=self.game.device)

    def reseed(self, seeds: list[int]) -> None:
        """Set the seeds of all environments for the next call of `begin`."""
        self._seeds = torch.from_numpy(np.array(seeds, np.uint32).view(np.int32)).to(self.game.device)

    def begin(self, out: DeviceStep) -> None:
        """Begin episode 0 of all environments, and write the first frames and ages into `out`."""
        self.state["envs"][self._words["seed"]] = self._seeds
        self._step(self._no_action, out, "begin all")

    def begin_next(self, out: DeviceStep, begun: Tensor, seeds: Tensor | None = None) -> None:
        """Begin the next episode where `begun` [n] bool is true, or episode 0 if `seeds` [n] int32 is given. The
        episode's first frame and age are written into `out`, and `begun` is copied to `out.ended`."""
        words, state = self._words, self.state["envs"]
        if seeds is not None:
            state[words["seed"]] = torch.where(begun, seeds, state[words["seed"]])
            state[words["number"]] = torch.where(begun, -1, state[words["number"]])
        out.ended.copy_(begun)
        self._step(self._no_action, out, "begin")

    def step(self, action: Tensor, out: DeviceStep, begins: bool = True) -> None:
        """Play an agent step with `action` [n] int64; a negative action skips the environment. If an episode
        ends and `begins` is true, the next episode begins within the same step."""
        self._step(action, out, "step" if begins else "play")

    def _step(self, action: Tensor, out: DeviceStep, part: str) -> None:
        repeat_probability = self.game.rules.repeat_probability
        translated = self.game.translated
        step_atari(action, self._state, list(out), self._tables, self._rules, repeat_probability, part, translated)

    def step_counting(self, action: Tensor, out: DeviceStep) -> tuple[int, int]:
        """Play an agent step on a CPU, as `step` does. Return the numbers of iterations of the 6507's instruction loop,
        summed over warps and summed over lanes."""
        a = step_arguments(
            action, self._state, list(out), self._tables, self._rules, self.game.rules.repeat_probability
        )
        counted = play_on_host(a)
        core().device.begin(bytes(a), False)
        return counted

    def hide_history(self) -> None:
        """Set the number of earlier frames of all environments to 0, so that the next stacks of observations contain
        none."""
        self.state["envs"][self._words["age"]] = 0

    @property
    def code(self) -> Tensor:
        """The Code (kernels/envs.h) of each environment's last step, [n] uint8: 0 if the fast core played the step, and
        otherwise why the plain core played it, or that the state is invalid."""
        return self.state["code"]

    def get_state(self) -> list[bytes]:
        words = self.state["envs"].cpu().numpy()
        return [words[:, i].tobytes() for i in range(self.n)]

    def set_state(self, states: list[bytes]) -> None:
        """Raises ValueError for a wrong number of states, or an invalid state."""
        if len(states) != self.n:
            raise ValueError(f"{len(states)} states for {self.n} environments")
        for state in states:
            if damage := core().device.damage(state, self.game.rom, self.game.kind):
                raise ValueError(f"the state of an environment is damaged: {damage}")
        words = np.stack([np.frombuffer(state, np.int32) for state in states], 1)
        self.state["envs"].copy_(torch.from_numpy(words))
