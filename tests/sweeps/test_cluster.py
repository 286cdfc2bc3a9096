"""A dry run tells whether a Gorila run's bundles and replays fit on described machines."""

import math
from dataclasses import replace

import pytest

from accel_rl.machine.machine import Machine, Node, read_machine
from accel_rl.papers import gorila
from accel_rl.settings.train import TrainConfig
from accel_rl.sweeps.layout import Needs, needs_of
from accel_rl.sweeps.sweep_plan import cluster_needs, describe_clusters
from accel_rl.text.errors import ConfigError

GIB = 2**30
REPLAY = 7_104 * 1_000_000 / GIB  # GiB of a million transitions of 84x84 pictures.


def machine(cores: int, gib: float | None, machines: int = 1, gpus: tuple[int, ...] = ()) -> Machine:
    memory = None if gib is None else int(gib * GIB)
    return Machine((Node(tuple((c,) for c in range(cores)), gpus),), memory, machines)


def config(address: str = "", **changes) -> TrainConfig:
    base = gorila.gorila()
    return replace(base, address=address, gorila=replace(base.gorila, **changes))


def test_a_run_with_its_own_ray_needs_a_core_for_each_member():
    assert needs_of(config()) == Needs(0, 100)
    assert needs_of(config(bundle_cpus=0.5)) == Needs(0, 50)
    assert needs_of(replace(config(bundles=2), device="auto")) == Needs(2, 2)
    assert needs_of(replace(config(bundles=4, bundle_gpus=0.5), device="auto")).gpus == 2
    assert Needs(0, 100).gpus_of(8) == 0


def test_a_run_on_a_running_cluster_needs_a_driver_here():
    assert needs_of(config("auto")) == Needs(0, 1)


def test_memory_or_cores_limit_the_members_of_a_machine():
    needs = cluster_needs(config("auto"), machine(4, 16))
    assert needs is not None and math.isclose(needs.replay / GIB, REPLAY, rel_tol=0.01)
    assert [needs.runs_on(machine(4, gib)) for gib in (4, 16, 24, 64, None)] == [0, 2, 3, 4, 4]


@pytest.mark.parametrize(
    ("there", "line"),
    [
        (
            machine(4, 16, 64),
            "50 machines of 4 cores and 16.0 GiB, up to 2 members and 1 shard each; there are 64: 1 run",
        ),
        (
            machine(4, 16, 10),
            "it does not fit: 50 machines of 4 cores and 16.0 GiB.*there are 10, which hold 20 members",
        ),
        (machine(4, 4, 64), "it does not fit: a machine of 4 cores and 4.0 GiB holds no member"),
        (machine(128, 1024), "1 machine of 128 cores and 1024.0 GiB, up to 100 members and 31 shards each"),
        (machine(4, None, 64), "25 machines of 4 cores, up to 4 members and 2 shards each; there are 64: 2 runs"),
    ],
)
def test_a_cluster_fits_or_not(there, line):
    from re import search

    head, fit, *_ = describe_clusters([config("auto")], there, 1)
    assert head.startswith("1 run of 100 bundles with 1 core and a replay of 6.6") and ", 31 shards" in head
    assert search(line, fit), fit


def test_one_machine_holds_its_replays_or_not():
    """Bundles may share the cores of a machine, but each bundle needs its own memory."""
    _, fit = describe_clusters([config(bundles=2)], machine(2, 16), 1)
    assert fit == "  on this machine of 2 cores and 16.0 GiB"
    _, fit = describe_clusters([config()], machine(4, 16), 1)
    assert fit.startswith("  it does not fit: the replays of 2 of 100 members fit") and "50 such machines" in fit


def test_a_global_replay_is_on_one_machine():
    run = config("auto", replay="global")
    head, fit = describe_clusters([run], machine(4, 16), 1)
    assert "one replay of 6.6" in head and fit.startswith("  25 machines")
    _, fit = describe_clusters([run], machine(4, 4), 1)
    assert fit.startswith("  it does not fit: the replay needs 6.6")


def test_more_runs_than_the_cluster_holds_are_noted():
    lines = describe_clusters([config("auto"), replace(config("auto"), seed=1)], machine(4, 16, 64), 4)
    assert lines[0].startswith("2 runs of") and lines[-1].endswith("with --cores-per-run 4 at most 1")
    assert describe_clusters([gorila.single()], machine(4, 16, 64), 4) == []


def test_a_file_names_memory_and_machines(tmp_path):
    file = tmp_path / "machine.json"
    file.write_text('{"nodes": 1, "cores_per_node": 4, "memory_gib": 16, "machines": 64}')
    found = read_machine(file)
    assert (found.memory, found.machines, found.cores) == (16 * GIB, 64, 4)
    assert found.describe().endswith("no GPU; 64 such machines")
    for text in (
        '{"nodes": 1, "cores_per_node": 4, "machines": 0}',
        '{"nodes": 1, "cores_per_node": 4, "memory_gib": -1}',
    ):
        file.write_text(text)
        with pytest.raises(ConfigError, match=r"machines=0|memory_gib=-1"):
            read_machine(file)
