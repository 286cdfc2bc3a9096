"""Environment configurations: accepted values, and messages for rejected values."""

import json
import subprocess
import sys
from dataclasses import fields

import pytest

from accel_rl.data.spec import EnvSpec
from accel_rl.envs import make
from accel_rl.envs.make import EnvConfig, ResolvedEnv, make_batch, make_spec
from accel_rl.envs.protocols import OVERRIDES, PROTOCOLS, resolve
from accel_rl.text.errors import ConfigError
from tests.env_settings import env_of


def test_every_protocol_field_is_an_override() -> None:
    assert {f.name for f in fields(EnvConfig)} == {
        "game",
        "id",
        "kwargs",
        "action_mask",
        "protocol",
        "backend",
        "randomness",
        "translate",
        "restore",
        *OVERRIDES,
    }


def test_json_round_trip() -> None:
    config = env_of(game="pong", frame="84x84", life_loss_ends_return=False, repeat_action_probability=0.1)
    assert ResolvedEnv.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    spec = make_spec(config, training=True)
    assert EnvSpec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec
    with pytest.raises(ConfigError, match="nearest: frame_skip"):
        EnvConfig.from_dict({"game": "pong", "frame_skp": 3})


def test_overrides_reach_the_rules() -> None:
    rules = env_of(game="pong", protocol="machado2018", noop_max=3, mode=0).rules()
    assert (rules.noop_max, rules.mode, rules.repeat_action_probability) == (3, 0, 0.25)


def test_protocols() -> None:
    assert len(PROTOCOLS) == 9 and all(name == p.name for name, p in PROTOCOLS.items())
    rules = resolve("mnih2015").for_evaluation()
    assert (rules.max_episode_steps, rules.life_loss_ends_return, rules.noop_max) == (4_500, False, 30)
    rules = resolve("stooke2018").for_evaluation()
    assert (rules.max_episode_steps, rules.life_loss_ends_return, rules.frame) == (27_000, False, "104x80")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"game": "breakot"}, "nearest: breakout"),
        ({"game": "joust"}, "is unknown"),  # only for two players
        ({"game": "spaceinvaders"}, "nearest: space_invaders"),
        ({}, "one of the two"),
        ({"game": "pong", "id": "CartPole-v1"}, "one of the two"),
        ({"game": "pong", "protocol": "mnih2013"}, "nearest: mnih2015"),
        ({"game": "pong", "frame": "84x48"}, "nearest: 84x84"),
        ({"game": "pong", "frame_skip": 0}, "frame_skip=0: must be a whole number from 1 to 60"),
        ({"game": "pong", "frame_skip": True}, "must be a whole number"),
        ({"game": "pong", "noop_max": -1}, "from 0 to 1,000"),
        ({"game": "pong", "stack": 33}, "from 1 to 32"),
        ({"game": "pong", "max_episode_steps": 0}, "from 1"),
        ({"game": "pong", "repeat_action_probability": 1.5}, "must be a number from 0 to 1"),
        ({"game": "pong", "repeat_action_probability": float("nan")}, "must be a number from 0 to 1"),
        ({"game": "pong", "full_action_set": 1}, "must be true or false"),
        ({"game": "space_invaders", "mode": 99}, "must be one of 0, 1, 2"),
        ({"game": "pong", "difficulty": 7}, "must be one of 0, 1"),
        ({"id": "CartPole-v1", "frame_skip": 2}, "frame_skip=2 is for Atari games"),
    ],
)
def test_errors_are_one_line(settings: dict, says: str) -> None:
    with pytest.raises(ConfigError) as e:
        env_of(**settings).check()
    assert says in str(e.value) and "\n" not in str(e.value)


@pytest.mark.parametrize(
    ("reset", "decorrelation_steps", "seeds", "says"),
    [
        ("imediate", 0, [1], "nearest: immediate"),
        ("wait", -1, [1], "0 or more"),
        ("wait", 0, [], "at least 1"),
    ],
)
def test_batch_errors_are_one_line(reset: str, decorrelation_steps: int, seeds: list[int], says: str) -> None:
    with pytest.raises(ConfigError) as e:
        make_batch(env_of(game="pong"), seeds, True, reset, decorrelation_steps)
    assert says in str(e.value) and "\n" not in str(e.value)


def test_a_stored_start_is_for_atari_games() -> None:
    with pytest.raises(ConfigError, match="is for Atari games: id='CartPole-v1' is none"):
        make_batch(env_of(id="CartPole-v1"), [1], True, "cached")


def test_the_mode_of_reset_is_part_of_the_protocol() -> None:
    assert "reset" not in make_spec(env_of(game="pong"), True, "wait").protocol  # equal episodes
    for game, reset, exact in (
        ("breakout", "cached", True),
        ("demon_attack", "cached", False),
        ("demon_attack", "swap", False),
        ("qbert", "cached", False),
        ("qbert", "swap", True),
    ):
        protocol = make_spec(env_of(game=game), True, reset).protocol
        assert (protocol["reset"], protocol["reset_exact"]) == (reset, exact)


def test_a_game_that_is_refused_needs_no_emulator() -> None:
    with pytest.raises(ConfigError, match="no protocol field"):
        resolve("stooke2018", {"frameskip": 3})


def test_workers_stay_light() -> None:
    """A process that makes Atari environments imports neither torch nor SciPy."""
    program = (
        "import sys; from accel_rl.envs.make import EnvConfig, make_batch, resolve_env;"
        "print(sorted(m for m in ('torch', 'ale_py', 'cv2', 'gymnasium', 'scipy') if m in sys.modules));"
        "make_batch(resolve_env(EnvConfig(game='pong')), [1], True);"
        "print(sorted(m for m in ('torch', 'scipy', 'matplotlib') if m in sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split("\n")[:2] == ["[]", "[]"] and run.stderr == ""


def test_settings_are_inspected_once_in_a_process(monkeypatch):
    """A process that makes two specs from equal settings makes only one environment to inspect."""
    made = []
    real = make.make_env
    monkeypatch.setattr(make, "make_env", lambda *a, **k: made.append(a) or real(*a, **k))
    make._inspected.cache_clear()
    config = env_of(game="pong")
    config.check()
    specs = [make.make_spec(c, training=True) for c in (config, env_of(game="pong"))]
    assert len(made) == 1 and specs[0] is specs[1]
    assert make.make_spec(config, training=False) is not specs[0] and len(made) == 2
