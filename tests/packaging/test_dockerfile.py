"""The Dockerfile's commands are those of README.md, and install and run accel_rl.

The tests need no Docker: the RUN commands are executed in a new virtual environment, except those that install system
packages or add users.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Dockerfile").read_text()
TRAIN = ["train", "pqn", "--game", "pong"]


def commands() -> list[str]:
    """Return the commands of all RUN lines except those that install system packages or add users."""
    return [line for line in re.findall(r"^RUN (.*)$", TEXT, re.M) if not re.match(r"apt-get|useradd", line)]


def test_the_command_is_that_of_readme() -> None:
    assert TEXT.count("accel_rl " + " ".join(TRAIN)) == 2
    assert "accel-rl " + " ".join(TRAIN) in (ROOT / "README.md").read_text()
    assert 'ENTRYPOINT ["accel-rl"]' in TEXT and len(commands()) == 4
    assert re.search(r"^USER 1000$", TEXT, re.M)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_its_commands_install_accel_rl_and_a_run_trains(tmp_path: Path) -> None:
    shutil.copytree(
        ROOT, tmp_path / "source", ignore=shutil.ignore_patterns("*.so", "build", "runs", ".git", "*.egg-info")
    )
    prefix = tmp_path / "opt"
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    # PyTorch is installed from PyPI or its mirror, because PyTorch's own package index may be unreachable.
    environment["TORCH_INDEX"] = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple")
    environment |= {"GAMES": "pong", "ACCEL_RL_SYSTEM_CACHE": f"{prefix}/translations"}
    environment.pop("ACCEL_RL_TRANSLATE", None)
    environment["PATH"] = f"{prefix}/bin:{environment['PATH']}"

    def execute(command: str) -> str:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command], env=environment, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}: {done.stdout[-1000:]}{done.stderr[-2000:]}"
        return done.stdout

    for command in commands():
        execute(command.replace("/opt/accel_rl", str(prefix)).replace("/source", str(tmp_path / "source")))
    execute("accel-rl --version")
    assert len(list((prefix / "translations").glob("rom-pong-*.so"))) == 1
    assert "evaluation: score" in execute(
        " ".join(["accel-rl", *TRAIN, "--env-steps 4096 --evaluation.episodes 1 --evaluation.max-episode-steps 400"])
    )
