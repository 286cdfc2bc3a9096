"""A user's torch module as the network of runs that are trained in every way, resumed, evaluated and exported."""

import shutil

import gymnasium
import numpy as np
import pytest
import torch

import accel_rl
from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.cli.main import main
from accel_rl.text.errors import ConfigError
from tests.api.small_envs import Pixels
from tests.marks import slow
from tests.models.users_networks import Pictures, Vectors

ON_POLICY = {"env_steps": 256, "envs": 8, "horizon": 8}
REPLAY = {"env_steps": 256, "envs": 4, "batch_size": 8, "replay__size": 1_000, "replay__start": 64, "intensity": 0.5}
SEQUENCES = {"lstm": 8, "length": 4, "burn_in": 2, "period": 4, "horizon": 4, "batch_size": 4, "intensity": 0.5}
WAYS = {
    "ppo": ("ppo", {**ON_POLICY, "minibatch": 32}),
    "lstm": ("a2c", {**ON_POLICY, "lstm": 8}),
    "pqn": ("pqn", {**ON_POLICY, "hidden": (16,), "activation": "elu"}),
    "rainbow": ("rainbow", {**REPLAY, "noisy": True, "atoms": 11}),
    "iqn": ("iqn", REPLAY),
    "r2d2": ("r2d2", {**REPLAY, **SEQUENCES}),
    "concurrent": ("dqn", {**REPLAY, "schedule": "concurrent", "target_interval": 64, "horizon": 4}),
    "ranks": ("ppo", {**ON_POLICY, "minibatch": 32, "ranks": 2}),
    "bools": ("pqn", {**ON_POLICY, "env": f"{__name__}:Bools"}),
    "mixed": ("dqn", {**REPLAY, "env": f"{__name__}:Mixed", "network": Pictures}),
    "async": ("a2c", {**ON_POLICY, "ranks": 2, "update": "async"}),
}
SLOW = ("lstm", "pqn", "iqn", "concurrent", "ranks", "bools", "mixed", "async")


class Floats(Pixels):
    """An environment whose observations are arrays of floats [8, 8, 2], as the network `minatar` accepts."""

    observation_space = gymnasium.spaces.Box(-1, 1, (8, 8, 2), np.float64)

    def _look(self):
        return self.np_random.normal(size=self.observation_space.shape)


class Mixed(Pixels):
    """An environment whose observations consist of a picture and a vector."""

    observation_space = gymnasium.spaces.Dict(
        image=gymnasium.spaces.Box(0, 255, (36, 36, 3), np.uint8), vector=gymnasium.spaces.Box(-1, 1, (3,))
    )

    def _look(self):
        return {
            "image": self.np_random.integers(0, 256, (36, 36, 3)).astype(np.uint8),
            "vector": self.np_random.uniform(-1, 1, 3).astype(np.float32),
        }


class Bools(Pixels):
    """The observations of MinAtar."""

    observation_space = gymnasium.spaces.Box(0, 1, (10, 10, 4), np.bool_)

    def _look(self):
        return self.np_random.random(self.observation_space.shape) < 0.1


def train(algorithm, folder, **values):
    options = {"engine": "in-process", "decorrelation_steps": 0, "log__interval": 64, "evaluation__interval": 0}
    if values.get("ranks"):
        del options["engine"]
    return accel_rl.train(algorithm, run_dir=folder, **{"checkpoint__interval": 64, **options, **values})


def newest(run):
    return Checkpoints(run.path / "checkpoints").load_latest()


@pytest.mark.parametrize("way", [slow(name) if name in SLOW else name for name in WAYS])
def test_a_resumed_run_equals_the_uninterrupted_one(tmp_path, way):
    algorithm, values = WAYS[way]
    vectors = {} if "env" in values else {"env": "CartPole-v1", "network": Vectors}
    run = train(algorithm, tmp_path / "run", checkpoint__keep=9, **vectors, **values)
    steps, state = newest(run)
    if vectors:
        assert run.config.algo.network == "tests.models.users_networks:Vectors"
        assert any(name.endswith("body.net.layers.0.weight") for name in state["learner"]["network"])
    if way == "async":  # The results of asynchronous ranks depend on the ranks' timing.
        return
    shutil.copytree(run.path, tmp_path / "again")
    for folder in [tmp_path / "again", *(tmp_path / "again").glob("rank*/*")]:
        if (checkpoints := Checkpoints(folder / "checkpoints")).steps():
            for later in checkpoints.steps()[len(checkpoints.steps()) // 2 :]:
                shutil.rmtree(checkpoints.path(later))
    again = accel_rl.Run.load(tmp_path / "again", trust=True)
    assert newest(again)[0] < steps
    resumed = newest(again.resume())[1]["learner"]["network"]
    assert all(torch.equal(x, resumed[name]) for name, x in state["learner"]["network"].items())


@pytest.mark.parametrize("env", ["Mixed", slow("Floats"), slow("Bools"), slow("Pixels")])
def test_pictures_are_trained_exported_and_evaluated(tmp_path, env, capsys):
    chosen = {"network": Pictures} if env in ("Pixels", "Mixed") else {}
    id = f"{'tests.api.small_envs' if env == 'Pixels' else __name__}:{env}"
    run = train("dqn", tmp_path / "run", env=id, stack=2, **REPLAY, **chosen)
    small = "pictures of {} are too small for --network dqn: --network minatar"
    lines = small.format("8x8" if env == "Floats" else "10x10")
    assert capsys.readouterr().out.count(lines) == (not chosen)
    assert run.config.algo.network == ("tests.models.users_networks:Pictures" if chosen else "minatar")
    model = run.export(tmp_path / "model")
    obs = run.load_agent().obs_shape
    kind = {"Floats": np.float64, "Bools": np.bool_}.get(env, np.uint8)
    frames = (np.random.default_rng(0).random((9, *obs)) * 2).astype(kind)
    assert (run.load_agent(greedy=True).act(frames) == model.load_agent(greedy=True).act(frames)).all()
    with pytest.raises(ValueError, match="was trained on pictures of"):
        run.load_agent().act(frames.astype(np.int64))
    assert run.evaluate(episodes=2, parallel=2, seed=3).scores == model.evaluate(episodes=2, parallel=2, seed=3).scores


@pytest.mark.parametrize(
    ("network", "line"),
    [
        ("tests.models.users_networks:NoModule", "must be a class of modules"),
        ("tests.models.users_networks:WithoutShape", "built as Class(observation_shape)"),
        ("tests.models.users_networks:Given(result='pair')", "returned tuple: must be features"),
        ("tests.models.users_networks:Given(result='NaN')", "returned nan: must be finite"),
        ("tests.models.users_networks:Pictures", "its forward of float32 [2, 4] raised RuntimeError"),
    ],
)
def test_a_wrong_network_is_refused_before_anything_starts(tmp_path, capsys, network, line):
    argv = ["train", "ppo", "--env", "CartPole-v1", "--network", network, "--run-dir", str(tmp_path / "run")]
    assert main([*argv, "--ranks", "2"]) == 2
    (text,) = capsys.readouterr().err.strip().splitlines()
    assert line in text and not (tmp_path / "run").exists()


def test_widths_are_checked(tmp_path, capsys):
    argv = ["train", "dqn", "--env", "CartPole-v1", "--run-dir", str(tmp_path / "run"), "--hidden"]
    for value, line in {"64,0": "64,0: must be widths of at least 1", "a": "must be a list such as 0-3,8"}.items():
        assert main([*argv, value]) == 2
        assert line in capsys.readouterr().err


def test_a_class_that_others_cannot_import_is_refused(tmp_path):
    class Inside(Vectors):
        pass

    with pytest.raises(ConfigError, match="must be defined at the top of a module"):
        train("ppo", tmp_path / "run", env="CartPole-v1", network=Inside, **ON_POLICY)
    import __main__

    __main__.Net = type("Net", (Vectors,), {"__module__": "__main__"})
    try:
        with pytest.raises(ConfigError, match=r"Net is defined in .*imported by the processes of the ranks"):
            train("ppo", tmp_path / "run", env="CartPole-v1", network=__main__.Net, ranks=2, **ON_POLICY)
        run = train("ppo", tmp_path / "run", env="CartPole-v1", network=__main__.Net, **ON_POLICY)
        assert run.resume(512).result.env_steps == 512
    finally:
        del __main__.Net
