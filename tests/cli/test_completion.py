"""The script that `accel-rl completion` prints completes commands in a real bash, and knows all options."""

import os
import pty
import re
import select
import shutil
import signal
import time

import pytest

from accel_rl.cli import completion
from accel_rl.cli.main import COMMANDS, main

TIMEOUT_S = 30


@pytest.fixture(scope="module")
def words() -> list[completion.Word]:
    return completion.words()


class Bash:
    """An interactive bash in a pseudo terminal, whose command `accel-rl` is replaced by one that prints its
    arguments."""

    def __init__(self, script, folder):
        pid, self.fd = pty.fork()
        if not pid:
            os.chdir(folder)
            os.environ.update(PS1="READY>", TERM="dumb", INPUTRC="/dev/null", COLUMNS="1000", HISTFILE="")
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
        self.pid = pid
        self.typed("bind 'set enable-bracketed-paste off'; bind 'set bell-style none'")
        self.typed(f"source {script}")
        self.typed("accel-rl() { printf 'got:%s:got\\n' \"$*\"; }")

    def typed(self, line: str) -> str:
        """Type a line and the enter key, and return the terminal's output."""
        os.write(self.fd, (line + "\n").encode())
        shown, until = "", time.monotonic() + TIMEOUT_S
        while time.monotonic() < until:
            if select.select([self.fd], [], [], 0.2)[0]:
                shown += os.read(self.fd, 65536).decode(errors="replace")
            elif shown.rstrip().endswith("READY>"):
                return shown
        raise AssertionError(shown)

    def completed(self, line: str) -> str:
        """Type a line with tab keys, and return the completed arguments of accel-rl."""
        return re.findall("got:(.*):got", self.typed(line))[-1]

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


@pytest.fixture
def bash(words, tmp_path):
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    (tmp_path / "script").write_text(completion.bash(words))
    (tmp_path / "my_run").mkdir()
    shell = Bash(tmp_path / "script", tmp_path)
    yield shell
    shell.close()


@pytest.mark.slow
def test_bash_completes_commands_options_and_values(bash):
    assert bash.completed("accel-rl tra\tpp\t--game\tbreako\t--rese\tsw\t") == (
        "train ppo --game breakout --reset swap"
    )
    assert bash.completed("accel-rl train dqn --algo.target-u\tup\t--sampler.eng\tin-\t") == (
        "train dqn --algo.target-unit updates --sampler.engine in-process"
    )
    assert bash.completed("accel-rl resume my_\t --schedule-\t5") == "resume my_run/ --schedule-steps 5"
    assert bash.completed("accel-rl resume my_\t --torch-t\t2") == "resume my_run/ --torch-threads 2"
    assert bash.completed("accel-rl train my_module:MyPPO --gae-l\t") == "train my_module:MyPPO --gae-lambda"
    assert bash.completed("accel-rl evaluate my_run --gre\t") == "evaluate my_run --greedy"


def test_the_other_shells(words):
    fish = completion.fish(words).splitlines()
    assert all(line.startswith(("#", "complete -c accel-rl -n ")) and line.count("'") % 2 == 0 for line in fish)
    line = next(x for x in fish if "from train; and __fish_seen_subcommand_from ppo' -l game " in x)
    assert " -x -a 'adventure " in line and " -d 'Atari game by its ale-py name" in line


def test_every_command_is_completed(words):
    with_options = {word.context.split()[0] for word in words if word.name.startswith("--")}
    assert with_options | set(completion.WITHOUT_OPTIONS) == set(COMMANDS)
    assert [word.name for word in words if not word.context] == list(COMMANDS)


def test_zsh_runs_the_script_for_bash(words, capsys):
    assert main(["completion", "zsh"]) == 0
    assert capsys.readouterr().out == completion.ZSH + completion.bash(words)


def test_another_shell_is_one_line(capsys):
    assert main(["completion", "bsh"]) == 2
    assert capsys.readouterr().err == "accel-rl: shell 'bsh': must be bash, zsh, fish; nearest: bash, zsh\n"
