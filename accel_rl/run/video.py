"""Videos of an agent are mp4, or gif if the optional package `video` (ffmpeg) is not installed."""

import importlib.util
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from accel_rl.agents.agent import Agent
from accel_rl.data.rollout import RnnState, Rollout
from accel_rl.data.rollout_arrays import RolloutArrays, rollout_layout
from accel_rl.envs.ale import AtariEnv
from accel_rl.envs.emulator import EmulatorEnv
from accel_rl.envs.gymnasium import GymnasiumEnv
from accel_rl.files.durable_files import refuse_link
from accel_rl.settings.resolved import Resolved
from accel_rl.text.errors import ConfigError
from accel_rl.text.notes import say_once

FPS = 60 / 4  # An Atari agent usually acts every 4 frames of 1/60 s.
LARGE = 400  # Pictures with a height of at most 400 pixels are enlarged.
INSTALL = "pip install 'accel_rl[video]'"


class FilmedEpisode:
    """Plays one evaluation episode in this process, and yields its screens in colour."""

    def __init__(self, config: Resolved, agent: Agent, seed: int, max_steps: int):
        self.env: AtariEnv | EmulatorEnv | GymnasiumEnv
        if config.env.game:
            kind = EmulatorEnv if config.env.is_emulated else AtariEnv
            self.env, self.fps = kind(config.env.games[0], config.env.rules(), seed, training=False), FPS
        else:
            stack = config.spec.stack
            keywords = config.env.keywords()
            limit = config.evaluation_limit
            self.env = GymnasiumEnv(
                config.env.id, seed, stack, limit, render=True, kwargs=keywords, training=False,
                mask_in_info=config.env.mask_in_info,
            )  # fmt: skip
            self.fps = self.env.render_fps
        self.agent, self.max_steps = agent, max_steps
        self._uniform = torch.Generator().manual_seed(seed)
        self.score, self.length = 0.0, 0

    def pictures(self) -> Iterator[np.ndarray]:
        """The screen [H, W, 3] uint8 at the start and after each agent step."""
        spec = self.env.spec
        # A rollout of one step is used, so that frames are stacked as in training.
        arrays = RolloutArrays.of({k: np.zeros(s, d) for k, (d, s) in rollout_layout(spec, 1, 1).items()}, spec.stack)
        rollout = Rollout.over(arrays)
        self.env.reset(arrays.frames[spec.stack - 1, 0])
        yield self.env.screen_rgb()
        device = next((p.device for p in self.agent.model.parameters()), torch.device("cpu"))
        size = self.agent.state_size
        state = torch.zeros(1, size, device=device)
        ended = False
        while not ended and self.length < self.max_steps:
            obs = rollout.observations(0).to(device)
            memory = RnnState(state, (rollout.age[:1] == 0).to(device)) if size else None
            action, _ = self.agent.act(obs, torch.rand(1, generator=self._uniform).to(device), memory)
            reward, _, _, ended = self.env.step(action.tolist()[0], arrays.frames[spec.stack, 0])
            if getattr(self.agent, "reads_reward", False):
                state[:, -1] = reward
            self.score, self.length = self.score + reward, self.length + 1
            arrays.frames[:-1] = arrays.frames[1:].copy()
            arrays.age[0] = min(int(arrays.age[0, 0]) + 1, spec.oldest)
            yield self.env.screen_rgb()


def write(pictures: Iterator[np.ndarray], path: Path, fps: float = FPS, scale: int | None = None) -> int:
    """Return the number of pictures. Raises ConfigError if the format's encoder is not installed. `scale` is the factor
    by which an mp4 is enlarged. By default, only small pictures are enlarged."""
    if path.suffix not in (".mp4", ".gif"):
        raise ConfigError(f"{path}: must end in .mp4 or .gif")
    if path.suffix == ".mp4" and importlib.util.find_spec("imageio_ffmpeg") is None:
        raise ConfigError(f"an mp4 needs the extra video: {INSTALL}; or use --out {path.with_suffix('.gif')}")
    path.parent.mkdir(parents=True, exist_ok=True)
    # An encoder would write through a link, so the video is a new file, which replaces the link.
    temporary = path.with_name(f".{uuid.uuid4().hex}{path.suffix}")
    try:
        n = (
            _write_mp4(pictures, temporary, fps, scale)
            if path.suffix == ".mp4"
            else _write_gif(pictures, temporary, fps)
        )
        if n:
            os.replace(temporary, path)
        return n
    finally:
        temporary.unlink(missing_ok=True)


def _write_mp4(pictures: Iterator[np.ndarray], path: Path, fps: float, scale: int | None) -> int:
    import imageio_ffmpeg

    writer: Any = None
    n = 0
    for picture in pictures:
        scale = scale or max(1, min(3, LARGE // picture.shape[0] + 1))
        large = np.ascontiguousarray(picture.repeat(scale, 0).repeat(scale, 1))
        if writer is None:
            writer = imageio_ffmpeg.write_frames(
                str(path), (large.shape[1], large.shape[0]), fps=fps, macro_block_size=2, quality=7
            )
            writer.send(None)
        writer.send(large)
        n += 1
    if writer is not None:
        writer.close()
    return n


def _write_gif(pictures: Iterator[np.ndarray], path: Path, fps: float) -> int:
    from PIL import Image

    images = [Image.fromarray(p).quantize(64, dither=Image.Dither.NONE) for p in pictures]
    images[0].save(path, save_all=True, append_images=images[1:], duration=round(1000 / fps), loop=0, optimize=False)
    return len(images)


def default_path(run: Path, env_steps: int) -> Path:
    """The path of a new video: mp4, or gif, with a message, if ffmpeg is not installed. Raises ConfigError if the
    folder videos is a link."""
    try:
        import imageio_ffmpeg  # noqa: F401

        suffix = ".mp4"
    except ImportError:
        say_once(f"no ffmpeg: writing a gif; for an mp4: {INSTALL}")
        suffix = ".gif"
    refuse_link(run / "videos")
    return run / "videos" / f"{env_steps:012d}{suffix}"
