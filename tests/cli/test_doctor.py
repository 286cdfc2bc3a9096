"""`accel-rl doctor`."""

import configparser
from pathlib import Path

from accel_rl.cli.doctor import EXTRAS

ROOT = Path(__file__).parents[2]
FOR_DEVELOPERS = {"bench", "docs", "test", "test-all"}


def test_it_names_each_extra_with_a_package_of_it() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    extras = dict(setup["options.extras_require"])
    assert set(EXTRAS) == set(extras) - FOR_DEVELOPERS
    assert all(package in extras[extra] for extra, package in EXTRAS.items())
