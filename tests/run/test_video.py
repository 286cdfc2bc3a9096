import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from accel_rl.agents.policy import CategoricalPolicyAgent
from accel_rl.envs.ale import AtariEnv
from accel_rl.models.actor_critic import ActorCritic
from accel_rl.run import video
from accel_rl.settings.resolved import fill_in
from accel_rl.settings.train import default_config
from accel_rl.text.errors import ConfigError
from tests.env_settings import env_of

CONFIG = default_config("a2c")
CONFIG = fill_in(replace(CONFIG, env=replace(CONFIG.env, game="pong")))


def pictures(n: int = 5):
    """Yield pictures of a bright square that moves over a black background."""
    for i in range(n):
        picture = np.zeros((21, 16, 3), np.uint8)
        picture[4:10, 2 * i : 2 * i + 4] = (250, 130, 10)
        yield picture


def test_gif(tmp_path):
    from PIL import Image

    out = tmp_path / "new" / "v.gif"
    assert video.write(pictures(), out) == 5
    with Image.open(out) as image:
        assert image.format == "GIF" and image.n_frames == 5 and image.size == (16, 21)
        assert abs(image.info["duration"] - 1000 / 15) < 10
        for i, want in enumerate(pictures()):
            image.seek(i)
            assert np.abs(np.asarray(image.convert("RGB")).astype(int) - want).max() < 8


@pytest.mark.needs("imageio_ffmpeg")
def test_mp4(tmp_path):
    import imageio_ffmpeg

    out = tmp_path / "new" / "v.mp4"
    assert video.write(pictures(), out, scale=4) == 5
    assert out.read_bytes()[4:8] == b"ftyp"
    reader = imageio_ffmpeg.read_frames(str(out))
    meta = next(reader)
    frames = [np.frombuffer(f, np.uint8).reshape(84, 64, 3) for f in reader]
    assert meta["size"] == (64, 84) and meta["fps"] == 15.0 and len(frames) == 5
    for got, want in zip(frames, pictures(), strict=True):
        assert np.abs(got[2::4, 2::4].astype(int) - want).mean() < 12


def test_without_ffmpeg(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    monkeypatch.setattr("accel_rl.text.notes._said", set())
    with pytest.raises(ConfigError, match=r"accel_rl\[video\].*v\.gif") as e:
        video.write(pictures(), tmp_path / "v.mp4")
    assert "\n" not in str(e.value)
    with pytest.warns(UserWarning, match="no ffmpeg"):
        assert video.default_path(tmp_path, 12345) == tmp_path / "videos" / "000000012345.gif"


@pytest.mark.needs("imageio_ffmpeg")
def test_default_path():
    assert video.default_path(Path("run"), 12345) == Path("run/videos/000000012345.mp4")


class Remembering(CategoricalPolicyAgent):
    def __init__(self, model):
        super().__init__(model)
        self.seen, self.actions = [], []

    def act(self, obs, uniform, memory=None, b=slice(None)):
        action, noted = super().act(obs, uniform, memory, b)
        self.seen.append(obs.clone())
        self.actions.append(int(action))
        return action, noted


def test_an_episode_is_what_the_agent_sees():
    """The agent gets the same stacks of frames as from a plain list of the environment's frames."""
    torch.manual_seed(0)
    agent = Remembering(ActorCritic(CONFIG.spec))
    episode = video.FilmedEpisode(CONFIG, agent, seed=5, max_steps=7)
    shown = list(episode.pictures())
    assert len(shown) == 8 and episode.length == 7 and {p.shape for p in shown} == {(210, 160, 3)}
    env = AtariEnv("pong", CONFIG.env.rules(), 5, training=False)
    frame = np.zeros(env.spec.frame_shape, np.uint8)
    env.reset(frame)
    seen = [frame.copy()]
    for t, action in enumerate(agent.actions):
        stack = [np.zeros_like(frame)] * (4 - len(seen)) + seen[-4:]
        assert (agent.seen[t][0].numpy() == np.stack(stack)).all(), t
        assert (env.screen_rgb() == shown[t]).all()
        env.step(action, frame)
        seen.append(frame.copy())
    assert (env.screen_rgb() == shown[-1]).all()
    assert len(np.unique([f.tobytes() for f in seen])) > 1


def test_the_emulators_frames_need_no_opencv(monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    config = fill_in(replace(CONFIG, env=replace(CONFIG.env, game="breakout", frame="84x84", backend="emulator")))
    episode = video.FilmedEpisode(config, Remembering(ActorCritic(config.spec)), seed=5, max_steps=3)
    assert len(list(episode.pictures())) == 4


def shown(name: str) -> video.FilmedEpisode:
    config = replace(CONFIG, env=env_of(id=f"tests.environments:{name}"))
    agent = CategoricalPolicyAgent(ActorCritic(config.spec))
    return video.FilmedEpisode(config, agent, seed=0, max_steps=100)


def test_an_environment_of_gymnasium_is_rendered():
    episode = shown("Shown")
    assert [int(p[0, 0, 0]) for p in episode.pictures()] == [0, 10, 20, 30]
    assert episode.fps == 10 and (episode.score, episode.length) == (3.0, 3)


@pytest.mark.slow
def test_else_its_pictures_are_shown():
    pictures = list(shown("Pictures").pictures())
    assert len(pictures) == 4 and all(p.shape == (40, 40, 3) and (p == (1, 2, 3)).all() for p in pictures)


def test_an_environment_without_pictures_is_one_line():
    with pytest.raises(ConfigError, match="renders no pictures: make it with render_mode='rgb_array'"):
        list(shown("blind").pictures())


def test_a_video_is_not_written_through_a_link(tmp_path):
    thesis, out = tmp_path / "thesis", tmp_path / "run" / "v.gif"
    thesis.write_text("mine")
    out.parent.mkdir()
    out.symlink_to(thesis)
    assert video.write(pictures(), out) == 5
    assert thesis.read_text() == "mine" and [p.name for p in out.parent.iterdir()] == ["v.gif"]
    (tmp_path / "run" / "videos").symlink_to(tmp_path)
    with warnings.catch_warnings(action="ignore"), pytest.raises(ConfigError, match="videos is a link"):
        video.default_path(tmp_path / "run", 0)
