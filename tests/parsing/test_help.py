"""Texts that --help and --help-all print."""

import contextlib
import itertools
import re

import pytest

from accel_rl.cli.main import COMMANDS, main
from accel_rl.cli.train import overview
from accel_rl.cli.train_command import TrainOptions
from accel_rl.settings.flags import flags_of
from accel_rl.settings.registry import ALGORITHMS, WITH_REPLAY
from accel_rl.settings.train import TrainConfig, default_config


def printed(capsys, *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*words])
    assert ended.value.code == 0
    return capsys.readouterr().out


def flags_in(text: str) -> set[str]:
    return set(re.findall(r"^  (--[\w.-]+)", text, re.M))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_help_of_a_run_is_short_and_begins_with_the_main_options(algorithm, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    text = printed(capsys, "train", algorithm, "--help")
    q_learning = algorithm in WITH_REPLAY  # Q-learning algorithms also have options of a replay and a second learner.
    assert len(text.splitlines()) <= (234 if q_learning else 200)
    assert re.findall(r"^  (--[\w.-]+)", text, re.M)[:4] == ["--game", "--env", "--env-steps", "--budget"]
    assert not [flag for flag in flags_in(text) if flag.startswith(("--gorila", "--distributed"))]
    assert ("--secondary.batch" in text) == q_learning


@pytest.mark.parametrize("algorithm", ["ppo", "rainbow"])
def test_all_options_are_in_the_long_help(algorithm, capsys):
    text = printed(capsys, "train", algorithm, "--help-all")
    flags = {*flags_of(TrainConfig, default_config(algorithm)), *flags_of(TrainOptions)}
    assert flags_in(text) == flags - {"--algorithm"}


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (["--cluster", "gorila"], "--gorila.bundles"),
        (["--ranks", "2"], "--distributed.update"),
        (["--gpus=0,1"], "--distributed.update"),
        (["--cluster", "ray"], "--distributed.max-restarts"),
    ],
)
def test_a_modes_options_come_with_the_mode(words, flag, capsys):
    assert flag not in printed(capsys, "train", "a2c", "--help")
    assert flag in printed(capsys, "train", "a2c", *words, "--help")


def test_line_breaks_of_the_source_are_not_in_texts(capsys, monkeypatch):
    """Each line of a help text is full, so that the first word of the next line would not fit."""
    monkeypatch.setenv("COLUMNS", "100")
    for block in re.findall(r"^  --.*\n(?:^ {34}.*\n)+", printed(capsys, "train", "ppo", "--help-all"), re.M):
        lines = block.rstrip("\n").split("\n")
        for line, following in itertools.pairwise(lines):
            if not line.startswith("  --") or len(line) > 50:
                assert len(line) + 1 + len(following.split()[0]) > 100, block


@pytest.mark.parametrize("command", sorted({*COMMANDS} - {"train", "games", "doctor", "completion"}))
def test_other_commands_describe_each_option(command, capsys):
    text = printed(capsys, command, "--help")
    assert text.startswith(f"usage: accel-rl {command}") and flags_in(text)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal(width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    for words in ([], ["train"], ["train", "r2d2"], *([command] for command in COMMANDS if command != "games")):
        for flag in ("--help", *["--help-all"] * (words == ["train", "r2d2"])):
            with contextlib.suppress(SystemExit):
                assert main([*words, flag]) == 0
            text = capsys.readouterr().out
            assert text and [line for line in text.splitlines() if len(line) > width] == [], words


def test_no_text_is_cut(capsys, monkeypatch):
    """An option with several possible values lists all of them."""
    monkeypatch.setenv("COLUMNS", "80")
    text = printed(capsys, "train", "ppo", "--help")
    assert not re.search(r"^(?!  --).*\.\.\.( \[.*\])?$", text, re.M)
    assert re.search(r"--precision \.\.\. +float32, tfloat32, bfloat16 \[float32\]", text)
    for value in ("cleanrl2022", "before-channels", "rmsprop-centered-torch", "data-efficient", "lockstep"):
        assert value in text


@pytest.mark.parametrize(
    "words", [["train"], ["train", "--help"], ["help", "train"], ["train", "--game", "pong", "-h"]]
)
def test_train_without_an_algorithm_lists_the_algorithms(words, capsys):
    assert main(words) == (2 if words == ["train"] else 0)
    out, err = capsys.readouterr()
    described = dict(re.findall(r"^  (\w+) {2,}(.+)", out, re.M))
    assert described.keys() >= ALGORITHMS.keys() and described["ppo"] == "proximal policy optimization"
    assert err == ("accel-rl train: the algorithm is missing\n" if words == ["train"] else "")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_each_algorithm_is_described(name):
    assert re.search(rf"^  {name} +[\w-]+,? [\w-]+", overview(), re.M)


def test_paragraphs_are_filled_and_commands_are_not(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = printed(capsys, "sweep", "--help")
    assert "\nmachine, and queues the runs that wait for a slot.\n" in text
    assert "\n    accel-rl sweep --resume FOLDER\n    accel-rl status FOLDER\n" in text
