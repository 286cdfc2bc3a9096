"""What --help and --help-all print."""

import itertools
import re

import pytest

from accel_rl.cli.main import COMMANDS, main
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
def test_the_help_of_a_run_is_short_and_begins_with_the_main_options(algorithm, capsys):
    text = printed(capsys, "train", algorithm, "--help")
    q_learning = algorithm in WITH_REPLAY  # with a replay and a second learner
    assert len(text.splitlines()) <= (156 if q_learning else 130)
    assert re.findall(r"^  (--[\w.-]+)", text, re.M)[:4] == ["--game", "--env", "--env-steps", "--seed"]
    assert not [flag for flag in flags_in(text) if flag.startswith(("--gorila", "--distributed"))]
    assert ("--secondary.batch" in text) == q_learning


@pytest.mark.parametrize("algorithm", ["ppo", "rainbow"])
def test_all_options_are_in_the_long_help(algorithm, capsys):
    text = printed(capsys, "train", algorithm, "--help-all")
    assert flags_in(text) == set(flags_of(TrainConfig, default_config(algorithm))) - {"--algorithm"}


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
    """Every line of a text is filled: the next one's first word would not fit."""
    monkeypatch.setenv("COLUMNS", "100")
    for block in re.findall(r"^  --.*\n(?:^ {34}.*\n)+", printed(capsys, "train", "ppo", "--help-all"), re.M):
        lines = block.rstrip("\n").split("\n")
        for line, following in itertools.pairwise(lines):
            if not line.startswith("  --") or len(line) > 50:
                assert len(line) + 1 + len(following.split()[0]) > 100, block


@pytest.mark.parametrize("command", sorted({*COMMANDS} - {"games", "doctor", "completion"}))
def test_other_commands_describe_each_option(command, capsys):
    text = printed(capsys, command, "--help")
    assert text.startswith(f"usage: accel-rl {command}") and flags_in(text)
