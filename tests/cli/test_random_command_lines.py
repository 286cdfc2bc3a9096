"""Random command lines and settings."""

import pytest

from tests.cli import random_command_lines
from tests.integration.runs import run


@pytest.mark.slow
def test_random_command_lines_and_settings_end_in_one_line():
    done = run("--number", 8, "--seed", 3, module="tests.cli.random_command_lines")
    assert done.returncode == 0 and "config.json, refused" in done.stdout, done.stdout + done.stderr


def test_a_wrong_end_of_a_command_line_is_found():
    problem = random_command_lines._problem
    assert problem(2, 0.1, "Traceback (most recent call last):\nKeyError: 'a'").startswith("a traceback")
    assert problem(2, 4.0, "accel-rl: no") == "4.0 s" and not problem(2, 1.0, "accel-rl: no")
    assert problem(2, 0.1, "") and problem(-9, 0.1, "") == "no end" and problem(139, 0.1, "") == "exit code 139"
