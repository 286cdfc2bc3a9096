"""Installation from source on a machine without a compiler."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
def test_without_a_compiler_it_installs_and_trains_through_ale_py(tmp_path: Path) -> None:
    pytest.importorskip("ale_py")
    source, target, run = tmp_path / "source", tmp_path / "target", tmp_path / "run"
    built = shutil.ignore_patterns("*.so", "build", "*.egg-info", "__pycache__", ".*")
    shutil.copytree(ROOT, source, ignore=built)
    environment = {**os.environ, "CC": "/bin/false", "CXX": "/bin/false", "PYTHONPATH": str(target)}
    pip = [sys.executable, "-m", "pip", "install", "-v", "--no-build-isolation", "--no-deps", "--no-index"]
    install = [*pip, "--target", str(target), str(source)]
    done = subprocess.run(install, capture_output=True, text=True, env=environment, cwd=tmp_path)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-2000:]
    assert said.count("accel_rl.emulator._core was not built") == 1 and "ale-py plays instead" in said
    assert not list(target.rglob("accel_rl/**/*.so"))

    small = ["--envs", "2", "--workers", "1", "--env-steps", "200", "--device", "cpu", "--evaluation.episodes", "0"]
    train = [sys.executable, "-m", "accel_rl", "train", "a2c", "--game", "pong", "--run-dir", str(run), *small]
    done = subprocess.run(train, capture_output=True, text=True, env=environment, cwd=tmp_path)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-2000:]
    assert said.count("until then Atari is played by ale-py") == 1, said[-2000:]
    assert json.loads((run / "protocol.json").read_text())["backend"] == "ale"
