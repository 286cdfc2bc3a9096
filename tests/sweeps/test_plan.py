"""A sweep's dry run prints the GPUs and cores that each run asks for and gets."""

import re
from pathlib import Path

import pytest

from accel_rl.sweeps import sweep_command as sweep

GRIDS = "tests.sweeps.grids"


@pytest.fixture
def planned(tmp_path, monkeypatch, capsys):
    """planned(...) returns the lines that a dry run prints for a machine with 8 GPUs and 40 cores."""
    monkeypatch.chdir(Path(__file__).parent.parent.parent)
    file = tmp_path / "dgx1.json"
    file.write_text('{"nodes": 2, "cores_per_node": 20, "threads_per_core": 2, "gpus_per_node": 4}')

    def lines(experiment: str, *options: str) -> list[str]:
        assert sweep.main([experiment, "--dry-run", "--machine", str(file), *options]) == 0, capsys.readouterr().err
        return capsys.readouterr().out.splitlines()

    return lines


def row(lines: list[str], name: str) -> list[str]:
    """Return the cells of a run's row: name, env steps, requested GPUs and cores, allotted GPUs and cores."""
    found = [line for line in lines if line.split()[:1] == [name]]
    assert len(found) == 1, (name, lines)
    return re.split(r" {2,}", found[0].strip())


def test_table_2_is_one_sweep_of_runs_of_1_to_8_gpus(planned):
    lines = planned("experiments.stooke:table_2")
    for algorithm in ("a2c", "a3c", "ppo", "appo"):
        for n in (2, 4, 8):
            asked, got = f"{n} GPUs, {n} cores", f"{n} GPUs, {5 * n} cores, {n} ranks"
            name = f"gpus={n},{algorithm},seed=0"
            assert row(lines, name) == [name, "50,000,000", asked, got]
        if algorithm in ("a2c", "ppo"):  # A3C and APPO have no run on one GPU.
            assert row(lines, f"gpus=1,{algorithm},seed=0")[2:] == ["1 GPU, 1 core", "1 GPU, 5 cores"]
    for head in ("8 GPUs, 40 cores, 1", "4 GPUs, 20 cores, 2", "2 GPUs, 10 cores, 4"):
        assert f"4 runs of {head} at the same time:" in lines
    assert "2 runs of 1 GPU, 5 cores, 8 at the same time:" in lines
    names = [line.split()[0] for line in lines if line.startswith("  gpus=")]
    assert [n[5] for n in names] == [*"88884444222211"]  # The plan lists runs in the order of their starts.
    assert lines[0] == "machine: 2 NUMA nodes, 40 cores (80 logical processors), GPUs 0-7"
    assert not any("asks" in line or "no slot" in line for line in lines if line[0] != " ")


def test_more_learners_than_gpus_share_all_of_them(planned):
    lines = planned("experiments.stooke:a3c", "--only", "game=pong", "seed=0")
    assert row(lines, "pong,ranks=32,seed=0")[2:] == ["8 GPUs, 32 cores", "8 GPUs, 40 cores, 32 ranks"]
    only = ("--only", "game=pong", "ranks=4", "seed=0", "--override", "distributed.ranks=32")
    lines = planned("experiments.stooke:async_dqn", *only)
    assert row(lines, "pong,ranks=4,seed=0")[2:] == ["32 GPUs, 32 cores", "8 GPUs, 40 cores, 32 ranks"]
    assert "1 run asks for 32 GPUs and gets 8: its 32 ranks share 8 GPUs" in lines


def test_a_smaller_machine_gives_what_it_has_and_says_so(planned):
    lines = planned("experiments.stooke:table_2", "--gpus", "0-3")
    assert row(lines, "gpus=8,ppo,seed=0")[2:] == ["8 GPUs, 8 cores", "4 GPUs, 20 cores, 8 ranks"]
    assert "4 runs ask for 8 GPUs each and get 4: the 8 ranks share 4 GPUs" in lines
    lines = planned("experiments.stooke:table_2", "--gpus", "none", "--only", "gpus=1,8")
    assert row(lines, "gpus=8,ppo,seed=0")[2:] == ["8 GPUs, 8 cores", "8 cores, 8 ranks"]
    assert "4 runs ask for 8 GPUs each and get none" in lines


def test_a_level_asks_for_gpus_that_the_configuration_does_not_name(planned):
    lines = planned(f"{GRIDS}:machines")
    assert row(lines, "envs=4")[2:] == ["1 GPU, 1 core", "1 GPU, 5 cores"]
    assert row(lines, "envs=48")[2:] == ["3 GPUs, 1 core", "3 GPUs, 15 cores, 3 ranks"]
    assert row(lines, "envs=64")[2:] == ["8 GPUs, 1 core", "8 GPUs, 40 cores, 8 ranks"]
    assert "1 run of 3 GPUs, 15 cores, 2 at the same time:" in lines


def test_given_sizes_are_those_of_all_runs(planned):
    lines = planned(f"{GRIDS}:machines", "--gpus-per-run", "2", "--runs-per-gpu", "2")
    assert "3 runs of 2 GPUs, 4 cores, 8 at the same time:" in lines
    assert {row(lines, f"envs={n}")[3] for n in (4, 48, 64)} == {"2 GPUs, 4 cores, 2 ranks"}
    lines = planned(f"{GRIDS}:machines", "--gpus", "none", "--cores-per-run", "10")
    assert "3 runs of 10 cores, 4 at the same time:" in lines


def test_samplers_get_a_core_each_where_there_is_no_gpu(planned):
    lines = planned("experiments.daley:speed_test", "--only", "seed=0", "--gpus", "none")
    for n in (2, 4, 8):
        assert row(lines, f"threads={n},variant=both,seed=0")[2:] == [f"1 GPU, {n} cores", f"{n} cores"]
    assert "4 runs of 8 cores, 4 at the same time:" in lines and "2 runs of 1 core, 40 at the same time:" in lines


def test_this_machine_gives_at_most_the_cores_that_it_has(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("accel_rl.machine.hardware.allowed_cores", lambda: [0, 1])
    monkeypatch.setattr("accel_rl.machine.hardware.cgroup_cpus", lambda: None)
    monkeypatch.setattr("accel_rl.machine.hardware.gpu_nodes", lambda: {})
    assert sweep.main(["experiments.daley:speed_test", "--only", "threads=8", "seed=0", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "4 runs ask for 8 cores each and get 2" in lines
    assert row(lines, "threads=8,variant=both,seed=0")[2:] == ["1 GPU, 8 cores", "2 cores"]


def test_slurm_plans_jobs(planned, monkeypatch):
    monkeypatch.setattr("accel_rl.sweeps.slurm.check", lambda: None)
    lines = planned("experiments.stooke:table_2", "--slurm", "--only", "algorithm=a2c", "--gpus", "0-3")
    got = {n: row(lines, f"gpus={n},a2c,seed=0")[-1] for n in (1, 2, 4, 8)}
    assert got == {1: "1 GPU, 1 core", 2: "2 GPUs, 2 cores", 4: "4 GPUs, 4 cores", 8: "4 GPUs, 8 cores"}


def test_ranks_on_the_gpus_that_are_there_divide_the_environments(planned):
    """On six GPUs, A2C divides its 256 environments among four ranks, and the 16 learners of A3C share all six GPUs."""
    only = ("--only", "game=pong", "seed=0", "algorithm=a2c-256env,a3c-16env-16")
    lines = planned("experiments.stooke:figure_10", *only, "--gpus", "0-5")
    assert row(lines, "pong,a2c-256env,seed=0")[2:] == ["8 GPUs, 1 core", "4 GPUs, 20 cores, 4 ranks"]
    assert row(lines, "pong,a3c-16env-16,seed=0")[2].startswith("8 GPUs")
    assert row(lines, "pong,a3c-16env-16,seed=0")[3].startswith("6 GPUs")
