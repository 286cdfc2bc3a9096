"""`accel-rl doctor`."""

import configparser
from pathlib import Path

import pytest
import torch

from accel_rl.cli import doctor
from accel_rl.cli.doctor import EXTRAS

ROOT = Path(__file__).parents[2]
FOR_DEVELOPERS = {"bench", "docs", "test", "test-all"}


def test_it_names_each_extra_with_a_package_of_it() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    extras = dict(setup["options.extras_require"])
    assert set(EXTRAS) == set(extras) - FOR_DEVELOPERS
    assert all(package in extras[extra] for extra, package in EXTRAS.items())


@pytest.mark.parametrize(("cuda", "end"), [(None, "CPU"), ("13.0", "is a CUDA build: one for CPUs is 3 GB smaller")])
def test_it_names_a_cuda_build_without_a_gpu(cuda, end, monkeypatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    said, wrong = list[str](), list[str]()
    doctor._gpu(lambda name, value: said.append(f"{name} {value}"), wrong)
    assert said[0].startswith("GPU none: networks run on the CPU") and said[0].endswith(end) and wrong == []


def test_it_names_files_that_hide_modules(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("queue.py", "torch.py", "mine.py"):
        (tmp_path / name).touch()
    assert [line.split(" hides")[0] for line in doctor.hidden_modules()] == ["queue.py", "torch.py"]
