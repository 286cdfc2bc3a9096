"""The methods of ale-py's ALEInterface that read a game's state, which wrappers of other libraries call on
`env.unwrapped.ale`."""

from typing import Any

import numpy as np

from accel_rl.emulator import palette
from accel_rl.emulator.env_core import AtariEnvCore


class AleView:
    """Reads the state of one game. ALEInterface's methods that change a game are missing."""

    def __init__(self, game: str, core: AtariEnvCore) -> None:
        self._core = core
        self._rgb, self._gray = palette.rgb(game), palette.gray(game)

    def lives(self) -> int:
        return self._core.lives

    def game_over(self) -> bool:
        return self._core.over

    def getRAM(self) -> np.ndarray:
        """Return the console's RAM, [128] uint8."""
        return self._core.ram()

    def getFrameNumber(self) -> int:
        return self._core.frames

    def getEpisodeFrameNumber(self) -> int:
        return self._core.episode_frames

    def getScreen(self, out: np.ndarray | None = None) -> np.ndarray:
        """Return the screen's palette indices [210, 160] uint8, in the array `out` if `out` is given."""
        return _written(self._core.screen(), out)

    def getScreenDims(self) -> tuple[int, int]:
        height, width = self._core.screen().shape
        return height, width

    def getScreenGrayscale(self, out: np.ndarray | None = None) -> np.ndarray:
        """Return the gray screen [210, 160] uint8, in the array `out` if `out` is given."""
        return _written(self._core.mapped(self._gray, 1), out)

    def getScreenRGB(self, out: np.ndarray | None = None) -> np.ndarray:
        """Return the colour screen [210, 160, 3] uint8, in the array `out` if `out` is given."""
        return _written(self._core.mapped(self._rgb, 3), out)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"ale.{name}: this project's environments have {', '.join(CALLS)}; for others make ALE/...-v5 of ale-py"
        )


CALLS = tuple(name for name in vars(AleView) if not name.startswith("_"))


def _written(screen: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    if out is None:
        return screen
    out[...] = screen.reshape(out.shape)
    return out
