"""Tests do not use the user's home folder, caches or settings."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from accel_rl.files.code_cache import cache_folder

ROOT = Path(__file__).parents[1]
HOME = Path(os.environ["HOME"])


def test_this_process_has_a_home_of_its_own() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    assert HOME.parent == Path(tempfile.gettempdir()) and HOME.name.startswith("accel_rl-home-")
    for folder in (cache_folder(), matplotlib.get_cachedir(), matplotlib.get_configdir()):
        assert HOME in Path(folder).parents, folder


@pytest.mark.slow
def test_settings_of_the_user_are_removed(tmp_path: Path) -> None:
    names = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR", "WANDB_DIR", "HF_HOME", "HOME")
    environment = {**os.environ, **dict.fromkeys(names, str(tmp_path)), "ACCEL_RL_TRANSLATE": "on"}
    environment.pop("PYTEST_XDIST_WORKER", None)
    code = "import tests.conftest, os; print(*os.environ.items(), sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert "('ACCEL_RL_TRANSLATE', 'off')" in done.stdout
    assert [line for line in done.stdout.splitlines() if str(tmp_path) in line] == []
