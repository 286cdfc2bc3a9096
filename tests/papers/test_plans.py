"""On the paper's machine with 8 GPUs and 40 cores, each run of a paper's sweep gets the GPUs that the run asks for."""

import re
from pathlib import Path

import pytest

from accel_rl.sweeps import sweep_command as sweep
from accel_rl.sweeps.grid import find_grid
from tests.marks import slow_unless

DGX_1 = '{"nodes": 2, "cores_per_node": 20, "threads_per_core": 2, "gpus_per_node": 4}'

# Maps each experiment to {GPUs per run: number of such runs}.
SWEEPS = {
    "stooke:figure_3": {1: 6 * (6 + 1 + 7) * 2, 2: 12, 4: 12, 8: 6 * (3 + 4) * 2},
    "stooke:figure_4": {1: 6 * 8 * 2},
    "stooke:figure_5": {8: 6 * 4 * 2},
    "stooke:figure_6": {1: 4},
    "stooke:figure_7": {1: 4},
    "stooke:figure_8": {1: 2},
    "stooke:figure_9": {1: 16},
    "stooke:figure_10": {1: 49 * 2, 8: 49 * 4},
    "stooke:figure_11": {1: 49 * 2, 8: 49 * 4},
    "stooke:figure_12": {1: 56 * 6},
    "stooke:table_1": {8: 8},
    "stooke:table_2": {1: 2, 2: 4, 4: 4, 8: 4},
    "stooke:table_3": {1: 3, 2: 3, 4: 4, 8: 3},
    "stooke:a3c": {1: 12, 2: 12, 4: 12, 8: 36},
    "stooke:appo": {1: 48, 2: 48, 4: 48, 8: 48},
    "stooke:async_dqn": {1: 12, 2: 12, 4: 12},
    "daley:table_1": {1: 70},
    "daley:table_2": {1: 70},
    "daley:table_3": {1: 70},
    "daley:table_4": {1: 49},
    "dalton:table_3": {1: 4 * 7 * 3, 4: 4 * 3},
}


@pytest.fixture
def plan(tmp_path, monkeypatch, capsys):
    """plan(experiment) returns the lines that a dry run prints."""
    monkeypatch.chdir(Path(__file__).parent.parent.parent)
    (tmp_path / "machine.json").write_text(DGX_1)

    def printed(name: str, *options: str, machine: bool = True) -> list[str]:
        words = [f"experiments.{name}", "--dry-run", *(["--machine", str(tmp_path / "machine.json")] * machine)]
        assert sweep.main([*words, *options]) == 0, capsys.readouterr().err
        return capsys.readouterr().out.splitlines()

    return printed


# Tests of the sweeps in SLOW are slow tests: the kinds of runs in these sweeps also occur in other sweeps.
SLOW = {f"stooke:figure_{i}" for i in (3, 4, 5, 10, 11, 12)} | {"stooke:appo", "stooke:a3c"}
SLOW |= {f"daley:table_{i}" for i in (2, 3, 4)}


@pytest.mark.parametrize("name", slow_unless(lambda name: name not in SLOW, SWEEPS))
def test_each_run_gets_the_gpus_that_it_asks_for(plan, name):
    members = find_grid(f"experiments.{name}").members
    lines = plan(name)
    rows = {re.split(" {2,}", line.strip())[0]: re.split(" {2,}", line.strip()) for line in lines}
    found: dict[int, int] = {}
    for m in members:
        *_, asked, got = rows[m.name]
        gpus = int(asked.split()[0])
        assert got.split()[:2] == asked.split()[:2] and f", {5 * gpus} cores" in got, rows[m.name]
        found[gpus] = found.get(gpus, 0) + 1
        if m.config.distributed.ranks and m.config.distributed.ranks > 1:
            assert got.endswith(f", {m.config.distributed.ranks} ranks")
    assert found == SWEEPS[name]
    assert not any(re.match(r"\d+ runs? asks? for ", line) for line in lines)


def test_a_machine_without_gpus_gives_daleys_samplers_its_cores(plan):
    lines = plan("daley:table_1", "--only", "seed=0", "--gpus", "none")
    cores = {}
    for line in lines:
        if found := re.match(r"  threads=(\d),variant=(\w+),seed=0 .*  (\d+) cores?$", line):
            cores[found[1]] = int(found[3])
    assert cores == {"1": 1, "2": 2, "4": 4, "8": 8}


@pytest.mark.parametrize("name", ["stooke:figure_6", "stooke:table_2"])
def test_seeds_of_grids_and_tables(plan, name):
    names = [line for line in plan(name, "--seeds", "7") if ",seed=" in line]
    assert names and all(",seed=7 " in line for line in names)


def test_gorila_is_planned_on_a_cluster_on_paper(plan, tmp_path):
    (tmp_path / "cluster.json").write_text('{"nodes": 1, "cores_per_node": 4, "memory_gib": 16, "machines": 64}')
    there = ("--machine", str(tmp_path / "cluster.json"))
    only = ("--only", "agent=gorila", "game=pong", "seed=0", "--override", "address=auto")
    lines = plan("gorila:tables", *only, *there, machine=False)
    assert any(re.match("1 run of 100 bundles with 1 core and a replay of 6.6. GiB each, 31 shards:", x) for x in lines)
    assert any(
        "50 machines of 4 cores and 16.0 GiB, up to 2 members and 1 shard each; there are 64" in x for x in lines
    )
    assert lines[-1].endswith("1 core    1 core, the driver")
    lines = plan("gorila:tables", *only[:4], *there, machine=False)
    assert "1 run asks for 100 cores and gets 4: its 100 bundles share 4 cores" in lines
    assert any("it does not fit" in line and "cluster of 50 such machines" in line for line in lines)


def test_a_gorila_run_leaves_the_gpus_to_single_dqn(plan):
    lines = plan("gorila:tables", "--only", "game=pong", "seed=0")
    rows = [line.split("  ") for line in lines if line.startswith("  pong,")]
    assert {row[1].strip(): row[-1] for row in rows} == {
        "pong,agent=gorila,seed=0": "40 cores, 100 bundles",
        "pong,agent=single,seed=0": "1 GPU, 5 cores",
    }
