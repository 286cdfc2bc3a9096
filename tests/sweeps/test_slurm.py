"""A sweep with --slurm submits one job array for all runs that ask for the same GPUs and cores."""

import os
import re
import shlex
import subprocess
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from accel_rl.sweeps import slurm
from accel_rl.sweeps import sweep_command as sweep
from accel_rl.sweeps.grid import find_grid
from accel_rl.sweeps.layout import Needs, Size
from accel_rl.sweeps.sweep_folder import SweepFolder
from accel_rl.sweeps.sweep_plan import planned
from accel_rl.text.errors import ConfigError
from tests.integration.runs import wait_for

# The import of submitit closes all logging handlers, which inside a test would include pytest's stderr.
submitit = pytest.importorskip("submitit")


class Executor:
    """A stand-in for submitit's executor, which records submitted jobs but starts none."""

    submitted: ClassVar[list[tuple[dict[str, Any], list[str]]]] = []

    def __init__(self, folder: str, cluster: str):
        assert cluster == "slurm" and folder.endswith("slurm")

    def update_parameters(self, **parameters: Any) -> None:
        self.parameters = parameters

    def map_array(self, call: Any, jobs: list[slurm.Job]) -> list[Any]:
        self.submitted.append((self.parameters, [job.run.rpartition("/")[2] for job in jobs]))
        return [SimpleNamespace(job_id=f"{len(self.submitted)}_{i}") for i in range(len(jobs))]


def test_each_size_is_an_array_of_its_own(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(submitit, "AutoExecutor", Executor)
    monkeypatch.setattr(Executor, "submitted", [])
    monkeypatch.setattr(slurm, "check", lambda: None)
    assert sweep.main(["tests.sweeps.grids:machines", "--slurm", "--out", str(tmp_path / "a")]) == 0
    asked = [(p["gpus_per_node"], p["cpus_per_task"], names) for p, names in Executor.submitted]
    assert asked == [(8, 1, ["envs=64"]), (3, 1, ["envs=48"]), (1, 1, ["envs=4"])]
    assert "3 jobs" in (out := capsys.readouterr().out) and "envs=64: job 1_0, 8 GPUs, 1 core" in out

    Executor.submitted.clear()
    assert sweep.main(["--resume", str(tmp_path / "a"), "--slurm", "--cores-per-run", "4"]) == 0
    assert [(p["gpus_per_node"], p["cpus_per_task"]) for p, _ in Executor.submitted] == [(8, 4), (3, 4), (1, 4)]

    Executor.submitted.clear()
    options = ["--gpus", "none", "--only", "envs=4,8"]
    assert sweep.main(["tests.sweeps.grids:mixed", "--slurm", *options, "--out", str(tmp_path / "b")]) == 0
    assert [(p["cpus_per_task"], len(names)) for p, names in Executor.submitted] == [(2, 1), (1, 2)]
    assert not any("gpus_per_node" in p for p, _ in Executor.submitted)


def test_given_sizes_and_a_nodes_gpus_limit_what_a_job_asks_for():
    needs = {"a": Needs(32, 32), "b": Needs(1, 8)}
    assert slurm.sizes(needs, sweep.SweepOptions()) == {"a": Size(32, 32), "b": Size(1, 8)}
    assert slurm.sizes(needs, sweep.SweepOptions(gpus="0-7")) == {"a": Size(8, 32), "b": Size(1, 8)}
    assert slurm.sizes(needs, sweep.SweepOptions(gpus_per_run=2, cores_per_run=3)) == {"a": Size(2, 3), "b": Size(2, 3)}
    with pytest.raises(ConfigError, match="--gpus-per-run 0"):
        slurm.sizes(needs, sweep.SweepOptions(gpus_per_run=0))


@pytest.mark.slow
def test_a_job_ends_as_its_run(tmp_path, capsys):
    """submitit's local executor runs the job, in place of Slurm."""
    grid = find_grid("tests.sweeps.grids:seeded").only({"seed": ["0"]}).changed(lambda c: replace(c, env_steps=400))
    sizes = slurm.sizes({m.name: m.needs for m in grid.members}, sweep.SweepOptions(gpus="none"))
    folder = SweepFolder(tmp_path / "sweep")
    folder.path.mkdir()
    folder.create(planned(grid, sizes), {n: {} for n in sizes}, {"placing": {}, "slurm": True})
    assert slurm.submit(folder, sizes, sweep.SweepOptions(), cluster="local") == 0
    wait_for(lambda: all(folder.finished(n, 400) for n in sizes), 100, "the jobs")
    assert "1 job" in capsys.readouterr().out
    assert sweep.main(["--resume", str(folder.path)]) == 2 and "--slurm" in capsys.readouterr().err


def test_options_are_passed_to_slurm(tmp_path, monkeypatch):
    monkeypatch.setattr(submitit, "AutoExecutor", Executor)
    monkeypatch.setattr(Executor, "submitted", [])
    monkeypatch.setattr(slurm, "check", lambda: None)
    options = ["--slurm-account", "me", "--slurm-qos", "low", "--slurm-constraint", "a100", "--slurm-jobs", "2"]
    argv = ["tests.sweeps.grids:mixed", "--slurm", *options, "--gpus", "none", "--only", "envs=4,8"]
    assert sweep.main([*argv, "--out", str(tmp_path / "a")]) == 0
    for p, _ in Executor.submitted:
        assert (p["slurm_account"], p["slurm_qos"], p["slurm_constraint"]) == ("me", "low", "a100")
        assert p["slurm_array_parallelism"] == 2 and "slurm_partition" not in p


def test_a_dry_run_needs_no_slurm(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))  # a PATH without sbatch
    argv = ["tests.sweeps.grids:mixed", "--slurm", "--gpus", "none", "--only", "envs=4,8"]
    assert sweep.main([*argv, "--dry-run", "--rates", str(tmp_path), "--rate", "a2c=100"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("3 jobs, each asking Slurm for:") and "of training (a2c at 100 env steps/s)" in out
    assert sweep.main([*argv, "--out", str(tmp_path / "b")]) == 2
    assert "there is no sbatch here" in capsys.readouterr().err and not (tmp_path / "b").exists()


@pytest.mark.parametrize("name", ["a,LD_PRELOAD=x", "my sweep", "a;touch x", "$(touch x)", "it's", "plain"])
def test_a_folders_name_adds_no_variable_to_a_job(tmp_path, monkeypatch, name):
    """The test reads the script that submitit writes for the job, as sbatch and bash would."""
    monkeypatch.setattr(submitit, "AutoExecutor", Executor)
    monkeypatch.setattr(Executor, "submitted", [])
    folder = SweepFolder(tmp_path / name)
    slurm.submit(folder, {"a": Size(0, 1)}, sweep.SweepOptions())
    ((parameters, _),) = Executor.submitted
    keys = {"name": "job_name", "slurm_setup": "setup", "slurm_additional_parameters": "additional_parameters"}
    script = submitit.slurm.slurm._make_sbatch_string(
        command="env", folder=tmp_path / "logs", use_srun=False, **{new: parameters[old] for old, new in keys.items()}
    )
    options = [shlex.split(line) for line in script.splitlines() if line.startswith("#SBATCH")]
    assert all(len(words) == 2 for words in options)
    assert [w for _, w in options if w.startswith(("--export", "--job-name"))] == [
        "--export=ALL", f"--job-name={parameters['name']}"
    ]  # fmt: skip
    assert re.fullmatch(r"[\w.=,-]+", parameters["name"])
    (tmp_path / "job.sh").write_text(script)
    environment = {"PATH": os.environ["PATH"]}
    out = subprocess.run(["bash", tmp_path / "job.sh"], env=environment, capture_output=True, text=True, check=True)
    variables = dict(line.partition("=")[::2] for line in out.stdout.splitlines())
    assert variables["WANDB_RUN_GROUP"] == name and "LD_PRELOAD" not in variables


def test_a_path_with_a_line_break_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="line break"):
        slurm.submit(SweepFolder(tmp_path / "a\n#SBATCH --export=B"), {"a": Size(0, 1)}, sweep.SweepOptions())
