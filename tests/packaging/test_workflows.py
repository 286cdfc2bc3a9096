"""The GitHub workflows and `.ci` parse, call existing scripts, and test the versions that setup.cfg allows."""

import configparser
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")
setuptools = pytest.importorskip("setuptools")

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SCRIPTS = sorted(path for path in (ROOT / ".ci").iterdir() if not path.suffix)
VERSIONS = ["3.11", "3.13"]


def test_one_package_is_installed() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    included = config["options.packages.find"]["include"].split()
    packages = setuptools.find_packages(str(ROOT), include=included)
    assert {name.partition(".")[0] for name in packages} == {"accel_rl"}
    assert {"accel_rl.sweeps", "accel_rl.papers.stooke"} <= set(packages)


def jobs(path: Path) -> dict[str, dict]:
    return yaml.safe_load(path.read_text())["jobs"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_calls_scripts_that_exist(path: Path) -> None:
    for name, job in jobs(path).items():
        assert job["runs-on"] and job["steps"], name
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step), step
            for script in re.findall(r"\.ci/\w+(?:\.py)?", step.get("run", "")):
                assert (ROOT / script).is_file(), script
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+(/[\w-]+){1,2}@v[\d.]+", step["uses"]), step
        needs = job.get("needs", [])
        assert {*([needs] if isinstance(needs, str) else needs)} <= jobs(path).keys()


def test_only_a_tag_is_published() -> None:
    release = jobs(ROOT / ".github/workflows/release.yml")
    publish = release.pop("publish")
    assert publish["if"] == "startsWith(github.ref, 'refs/tags/v')" and {*publish["needs"]} == release.keys()
    assert not any("publish" in step.get("uses", "") for job in release.values() for step in job["steps"])


URL = "https://host.example/owner/accel_rl"
METADATA = """
import setuptools
setuptools.setup = lambda **values: print(values["project_urls"], values["long_description"], sep="\\n")
exec(compile(open("setup.py").read(), "setup.py", "exec"), {"__file__": "setup.py"})
"""


def test_links_on_a_package_index_are_absolute() -> None:
    environment = {**os.environ, "REPOSITORY_URL": URL + "/"}
    done = subprocess.run(
        [sys.executable, "-c", METADATA], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    urls, text = done.stdout.split("\n", 1)
    assert f"'Changelog': '{URL}/blob/main/CHANGELOG.md'" in urls
    found = re.findall(r"\]\(([^)]*)\)", text)
    assert f"{URL}/raw/main/docs/pictures/breakout.gif" in found and f"{URL}/blob/main/CONTRIBUTING.md" in found
    assert all(link.startswith("https://") for link in found)


def test_tests_and_wheels_are_of_the_same_python_versions() -> None:
    assert jobs(ROOT / ".github/workflows/ci.yml")["tests"]["strategy"]["matrix"]["python"] == VERSIONS
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]["build"]
    assert build == "cp3{" + ",".join(version[2:] for version in VERSIONS) + "}-{manylinux,macosx}_*"
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    named = re.findall(r"Programming Language :: Python :: (3\.\d+)", config["metadata"]["classifiers"])
    assert named == VERSIONS


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_is_executable_and_parses(path: Path) -> None:
    assert os.access(path, os.X_OK)
    assert path.read_text().startswith("#!/usr/bin/env bash\n")
    subprocess.run(["bash", "-n", str(path)], check=True)
    for script in re.findall(r"^\s*(\.ci/\w+|tests/[\w/]+\.py)", path.read_text(), re.M):
        assert (ROOT / script).is_file(), script


WHOLE = [
    "accel_rl/py.typed",
    "accel_rl/api/train_settings.pyi",
    "accel_rl/emulator/games.json",
    "accel_rl/envs/scores.json",
    "accel_rl/papers/libraries/curves.csv",
    "accel_rl/papers/stooke/published.json",
    "accel_rl/emulator/core/types.h",
    "accel_rl/emulator/core/fast/tia.h",
    "accel_rl/emulator/device/kernels/kernels.cu",
    "accel_rl/emulator/device/kernels/step.h",
    "accel_rl/emulator/_core.cpython-311-x86_64-linux-gnu.so",
    "accel_rl/kernels/_native.cpython-311-x86_64-linux-gnu.so",
    "accel_rl-0.1.0.dist-info/licenses/LICENSE",
]


@pytest.mark.parametrize(
    "files, tag, problem",
    [
        (WHOLE, "manylinux_2_28_x86_64", ": complete"),
        (WHOLE, "linux_x86_64", "has no manylinux tag"),
        ([name for name in WHOLE if "/_core" not in name], "manylinux_2_28_x86_64", "lacks accel_rl/emulator/_core"),
        ([name for name in WHOLE if "/_native" not in name], "manylinux_2_28_x86_64", "lacks accel_rl/kernels/_native"),
        ([*WHOLE, "tests/__init__.py"], "manylinux_2_28_x86_64", "adds tests"),
        ([*WHOLE, "launch/__init__.py"], "manylinux_2_28_x86_64", "adds launch"),
    ],
    ids=["whole", "not repaired", "without _core", "without _native", "with tests", "with a second package"],
)
def test_a_wheel_without_an_extension_or_with_more_than_one_package_is_refused(
    tmp_path: Path, files: list[str], tag: str, problem: str
) -> None:
    path = tmp_path / f"accel_rl-0.1.0-cp311-cp311-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in files:
            archive.writestr(name, "")
    check = [sys.executable, str(ROOT / ".ci" / "wheel_contents.py"), str(path)]
    done = subprocess.run(check, capture_output=True, text=True)
    said = done.stdout.replace("\\", "")
    assert problem in said and len(said.splitlines()) == 1, said
    assert done.returncode == (problem != ": complete")
