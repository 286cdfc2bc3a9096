"""Flags of the command line, and the configuration that the flags set."""

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Literal

import pytest

from accel_rl.cli.main import main
from accel_rl.parsing.arguments import parse, positionals
from accel_rl.settings.flags import flags_of, replaced
from accel_rl.settings.outputs import CheckpointConfig, LogConfig
from accel_rl.settings.registry import WITH_REPLAY, find_algorithm
from accel_rl.settings.sampler_config import SamplerConfig
from accel_rl.settings.train import TrainConfig, default_config
from accel_rl.text.counts import parse_count
from accel_rl.text.errors import ConfigError

DEFAULT = default_config("a2c")


@dataclass(frozen=True)
class Left:
    rate: float = 1.0
    only_left: int = 0
    greedy: bool = False


@dataclass(frozen=True)
class Right:
    rate: float = 2.0
    fast: bool = True


@dataclass(frozen=True)
class Both:
    left: Left = field(default_factory=Left)
    right: Right = field(default_factory=Right)
    seed: int = 0
    strict: bool = False


@dataclass(frozen=True)
class Types(Both):
    label: str | None = "none"
    numbers: tuple[int, ...] | None = None
    names: tuple[str, ...] = field(default=("x",), metadata={"appended": True})
    size: float | Literal["small", "large"] | None = 0.5
    certain: bool | None = None
    secret: int = field(default=1, metadata={"hidden": True})


def read(*argv: str, cls=Both, default=None):
    return parse(cls, list(argv), "prog", "what it does", default)


def train(*argv: str) -> TrainConfig:
    return read(*argv, cls=TrainConfig, default=DEFAULT)


def error_of(call, *args, **kwargs) -> str:
    with pytest.raises(ConfigError) as e:
        call(*args, **kwargs)
    assert "\n" not in str(e.value)
    return str(e.value)


def test_every_flag_has_its_bare_name():
    assert flags_of(Both) == {
        "--left.rate": "rate",
        "--left.only-left": "only-left",
        "--left.greedy": "greedy",
        "--right.rate": "rate",
        "--right.fast": "fast",
        "--seed": "seed",
        "--strict": "strict",
    }


def test_the_default_decides_which_fields_a_part_has():
    assert "--algo.gae-lambda" in flags_of(TrainConfig, DEFAULT)
    assert "--algo.gae-lambda" not in flags_of(TrainConfig)


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        (["--only-left", "3"], "left.only_left", 3),
        (["--only_left=3"], "left.only_left", 3),
        (["--left.only_left", "3"], "left.only_left", 3),
        (["--seed", "1", "--seed=2"], "seed", 2),
        (["--greedy"], "left.greedy", True),
        (["--greedy", "--no-greedy"], "left.greedy", False),
        (["--no-fast"], "right.fast", False),
        (["--left.no-greedy"], "left.greedy", False),
        (["--seed", "-1"], "seed", -1),
        (["--label=a=b"], "label", "a=b"),
        (["--label", "None"], "label", None),
        (["--label=--seed"], "label", "--seed"),
        (["--label", ""], "label", ""),
        (["--numbers"], "numbers", ()),
        (["--numbers", "1", "-2", "3e1"], "numbers", (1, -2, 30)),
        (["--numbers=1", "2", "--numbers", "3"], "numbers", (3,)),
        (["--names", "a", "--names=b"], "names", ("x", "a", "b")),
        (["--size", "1.5"], "size", 1.5),
        (["--size", "small"], "size", "small"),
        (["--size", "None"], "size", None),
        (["--certain", "False"], "certain", False),
    ],
)
def test_a_value_of_each_type_and_form(given, name, value):
    assert repr(read(*given, cls=Types)) == repr(replaced(Types(), {name: value}))


def test_an_ambiguous_name_says_which_there_are():
    assert error_of(read, "--rate", "1") == "--rate is ambiguous; allowed: --left.rate, --right.rate"


@pytest.mark.parametrize(
    ("given", "near"), [("--left.rat", "--left.rate"), ("--sed", "--seed"), ("--gredy", "--greedy")]
)
def test_an_unknown_name_says_the_nearest(given, near):
    message = error_of(read, given, "1")
    assert message.startswith(f"unknown option {given}; nearest: ")
    assert near in message.partition("nearest: ")[2].split(", ")


def test_an_unknown_name_near_nothing():
    assert error_of(read, "--zzzzzzzz") == "unknown option --zzzzzzzz; see --help"


def test_values_arrive():
    got = read("--only-left", "3", "--right.rate", "0.5", "--no-fast", "--greedy", "--seed", "7")
    assert got == Both(Left(only_left=3, greedy=True), Right(rate=0.5, fast=False), seed=7)
    assert read() == Both()


def test_help_ends_the_program_well(capsys):
    with pytest.raises(SystemExit) as e:
        read("--help")
    assert e.value.code in (0, None)
    assert "--left.rate" in capsys.readouterr().out


def test_leading_words():
    assert positionals(["run", "--seed", "1"], ["run_dir"], "prog") == (["run"], ["--seed", "1"])
    assert positionals(["a", "b", "--x"], ["runs"], "prog", many=True) == (["a", "b"], ["--x"])
    assert positionals(["--help"], ["run_dir"], "prog") == ([], ["--help"])
    assert error_of(positionals, ["--seed", "1"], ["run_dir"], "prog") == "prog: run_dir is missing"
    assert "'b'" in error_of(positionals, ["a", "b"], ["run_dir"], "prog")


def test_training_flags():
    got = train("--game", "pong", "--env-steps", "1e6", "--cores", "0", "1", "--no-strict", "--sampler.reset=wait")
    assert got == dataclasses.replace(
        DEFAULT,
        env=dataclasses.replace(DEFAULT.env, game="pong"),
        env_steps=1_000_000,
        sampler=dataclasses.replace(DEFAULT.sampler, cores=(0, 1), reset="wait"),
    )


@pytest.mark.parametrize(
    ("text", "n"), [("20000", 20000), ("1_000_000", 10**6), ("1e6", 10**6), ("-3", -3), ("9007199254740993", 2**53 + 1)]
)
def test_counts(text, n):
    got = parse_count(text)
    assert got == n and isinstance(got, int)


@pytest.mark.parametrize("text", ["1.5", "inf", "nan", "", "two", "1e-3"])
def test_no_counts(text):
    with pytest.raises(ValueError):
        parse_count(text)


def test_a_configuration_survives_json():
    config = train("--game", "breakout", "--cores", "0", "2", "--workers", "None", "--learning-rate", "1e-3")
    back = TrainConfig.from_dict(json.loads(json.dumps(config.to_dict())))
    assert back == config
    assert type(back.algo) is type(DEFAULT.algo) and back.sampler.cores == (0, 2)


@pytest.mark.parametrize(
    ("change", "says"),
    [({"sed": 1}, ("sed", "nearest: ", "seed")), ({"sampler": {"env": 4}}, ("sampler.env", "nearest: ", "envs"))],
)
def test_unknown_fields_of_a_configuration(change, says):
    message = error_of(TrainConfig.from_dict, {**DEFAULT.to_dict(), **change})
    assert all(s in message for s in says), message


@pytest.mark.parametrize(
    ("config", "flag"),
    [
        (TrainConfig(env_steps=0), "--env-steps 0"),
        (TrainConfig(seed=-1), "--seed -1"),
        (TrainConfig(sampler=SamplerConfig(envs=0)), "--sampler.envs 0"),
        (TrainConfig(sampler=SamplerConfig(timeout_s=float("nan"))), "--sampler.timeout-s nan"),
        (TrainConfig(checkpoint=CheckpointConfig(keep=0)), "--checkpoint.keep 0"),
        (TrainConfig(checkpoint=CheckpointConfig(minutes=0)), "--checkpoint.minutes 0"),
        (TrainConfig(log=LogConfig(interval=0)), "--log.interval 0"),
    ],
)
def test_impossible_values(config, flag):
    assert error_of(config.check).startswith(flag)


def test_the_interval_between_rows_follows_the_length_of_the_run():
    assert [TrainConfig(env_steps=n).log_interval() for n in (10, 10**6, 10**9)] == [1_000, 10_000, 50_000]


def test_algorithms_by_name():
    assert find_algorithm("a2c").__name__ == "A2C"
    assert "nearest: a2c" in error_of(find_algorithm, "a2")
    assert "no module" in error_of(find_algorithm, "no_such_module:Thing")
    assert "nearest: A2C" in error_of(find_algorithm, "accel_rl.algos.a2c:A2")
    assert "not a subclass" in error_of(find_algorithm, "json:dumps")


SWITCH = "must be without a value; the opposite is"
LINES = {
    "--env-steps ten": "--env-steps 'ten': must be a whole number",
    "--env-steps 1.5": "--env-steps '1.5': must be a whole number",
    "--env-steps 10M": "--env-steps '10M': must be a whole number",
    "--env-steps 1e18": "--env-steps 1e+18: must be a number of at most 1e+15",
    "--env-steps None": "--env-steps 'None': must be a whole number",
    "--schedule-steps x": "--schedule-steps 'x': must be a whole number or None",
    "--seed": "--seed: the value is missing",
    "--seed=": "--seed '': must be a whole number",
    "--seed 0x10": "--seed '0x10': must be a whole number",
    "--parallel --seed 3": "--evaluation.parallel: the value is missing",
    "--learning-rate x": "--algo.learning-rate 'x': must be a number",
    "--learning-rate nan": "--algo.learning-rate nan: must be a number of at most 1e+15",
    "--gamma 1e999": "--algo.gamma inf: must be a number of at most 1e+15",
    "--gamma 5%": "--algo.gamma '5%': must be a number",
    "--sampler.timeout-s 1e-9": "--sampler.timeout-s 1e-09: must be 0.1 to 1e+06 seconds",
    "--repeat-action-probability x": "--env.repeat-action-probability 'x': must be a number or None",
    "--wandb online2": "--wandb 'online2': must be one of disabled, offline, online; nearest: online, offline",
    "--wandb=": "--wandb '': must be one of disabled, offline, online",
    "--precision FLOAT32": "--precision 'FLOAT32': must be one of float32, tfloat32, bfloat16; "
    "nearest: float32, tfloat32, bfloat16",
    "--cores a": "--sampler.cores 'a': must be a list such as 0-3,8 or None",
    "--cores 0,a": "--sampler.cores '0,a': must be a list such as 0-3,8 or None",
    "--cores 3-1": "--sampler.cores '3-1': must be a list such as 0-3,8 or None",
    "--cores 0 a": "--sampler.cores '0' 'a': must be a list such as 0-3,8 or None",
    "--life-loss-ends-return true": "--env.life-loss-ends-return 'true': must be True or False or None",
    "--life-loss-ends-return": "--env.life-loss-ends-return: the value is missing",
    "--no-life-loss-ends-return": "--no-life-loss-ends-return: --env.life-loss-ends-return is no switch, and must be "
    "True or False or None",
    "--no-translate": "--no-translate: --env.translate is no switch, and must be one of auto, off",
    "--no-seed 3": "--no-seed: --seed is no switch, and must be a whole number",
    "--tensorboard True": f"--tensorboard True: {SWITCH} --no-tensorboard",
    "--no-strict=1": f"--no-strict 1: {SWITCH} --strict",
    "--log.tensorboard=1": f"--log.tensorboard 1: {SWITCH} --log.no-tensorboard",
    "--seed 1 2": "unexpected argument '2'",
    "--callback a b": "unexpected argument 'b'",
    "--callback": "--callback: the value is missing",
    "-game pong": "unexpected argument '-game'; nearest: --env.game",
    "--seed 1 -x": "unexpected argument '-x'",
    "--algorithm ppo": "unknown option --algorithm: the algorithm comes first: accel-rl train ppo ...",
    "--double": f"unknown option --double: this algorithm has no such setting; {', '.join(WITH_REPLAY)} have it",
    "--pretrained x": "unknown option --pretrained: use --init (run or model)",
    "--sampler x": "unknown option --sampler; nearest: --sampler.envs, --sampler.reset, --sampler.cores",
    "--interval 3": "--interval is ambiguous; allowed: --evaluation.interval, --checkpoint.interval, --log.interval",
}


@pytest.mark.parametrize("given", LINES)
def test_a_mistake_is_one_line_with_what_is_allowed(given):
    assert error_of(train, *given.split(" ")) == LINES[given]


@pytest.mark.parametrize(
    ("flag", "text", "value"),
    [
        ("--seed", "x", "x"),
        ("--algo.learning-rate", "fast", "fast"),
        ("--wandb", "of", "of"),
        ("--torch-threads", "1.5", "1.5"),
        ("--seed", str(2**63), 2**63),
        ("--algo.gamma", "nan", float("nan")),
        ("--algo.gamma", "1.5", 1.5),
        ("--env-steps", "0", 0),
        ("--sampler.cores", "a", ("a",)),
        ("--distributed.timeout-s", "0", 0.0),
    ],
)
def test_python_refuses_a_value_in_the_same_line(flag, text, value):
    config = replaced(DEFAULT, {flag[2:].replace("-", "_"): value})
    assert error_of(config.check) == error_of(train, flag, text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import nothing_there", "No module named 'nothing_there'"),
        ("def f(:", "SyntaxError: invalid syntax (broken_NUMBER.py, line 1)"),
        ("x = 1\ny = x / 0", "ZeroDivisionError: division by zero, FOLDER/broken_NUMBER.py, line 2"),
    ],
)
def test_an_error_in_a_users_module_names_the_line(tmp_path, monkeypatch, text, why):
    name = f"broken_{len(text)}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    why = why.replace("broken_NUMBER", name).replace("FOLDER", str(tmp_path))
    assert error_of(find_algorithm, f"{name}:X") == f"algorithm '{name}:X': it cannot be imported ({why})"


def test_the_program_is_named_once(capsys):
    assert main(["train", "ppo", "pong"]) == 2
    assert capsys.readouterr().err.startswith("accel-rl train: unexpected argument 'pong': a game is --game pong")
