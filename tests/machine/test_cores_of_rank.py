"""Ranks get the same cores on a machine and in a plan made from the machine's description, by NUMA node and core."""

import os
import random
from functools import partial

import pytest

from accel_rl.machine import hardware
from accel_rl.machine.machine import Machine, Node
from accel_rl.machine.placement import cores_of_rank, gpu_of_rank, place_processes
from tests.marks import slow


def dgx1() -> Machine:
    """Return a machine with two sockets of 20 cores with 2 threads each, and 8 GPUs."""
    return numbered(2, 20, 2, 8)


def numbered(sockets: int, cores: int, threads: int, gpus: int) -> Machine:
    """Return a machine with Linux's numbers of hyperthreads: first one of each core, then the second of each core."""
    nodes = []
    for node in range(sockets):
        first = range(node * cores, (node + 1) * cores)
        mine = tuple(g for g in range(gpus) if g * sockets // gpus == node)
        nodes.append(Node(tuple(tuple(c + k * sockets * cores for k in range(threads)) for c in first), mine))
    return Machine(tuple(nodes))


@pytest.fixture
def present(monkeypatch, tmp_path):
    """present(machine, allowed) fakes the files of Linux and the output of nvidia-smi of `machine`."""
    real, siblings = hardware.this_machine, hardware.hyperthreads
    count = iter(range(1_000))

    def make(machine: Machine, allowed: set[int]) -> None:
        folder = tmp_path / str(next(count))
        for i, node in enumerate(machine.nodes):
            for core in node.cores:
                for t in core:
                    cpu = folder / "cpu" / f"cpu{t}"
                    (cpu / "topology").mkdir(parents=True)
                    (cpu / f"node{i}").mkdir()
                    (cpu / "topology" / "thread_siblings_list").write_text(",".join(map(str, core)) + "\n")
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(allowed), raising=False)
        monkeypatch.setattr(hardware, "cgroup_cpus", lambda: machine.quota)
        monkeypatch.setattr(hardware, "gpu_nodes", lambda: {g: i for i, n in enumerate(machine.nodes) for g in n.gpus})
        monkeypatch.setattr(hardware, "this_machine", partial(real, str(folder)))
        monkeypatch.setattr(hardware, "hyperthreads", lambda core, cpus=None: siblings(core, folder / "cpu"))

    return make


def plan(gpus, ranks, concurrent=False):
    usable = hardware.usable_cores()
    cores = [cores_of_rank(usable, gpus, ranks, r) if ranks > 1 else tuple(usable) for r in range(ranks)]
    device = "cuda:0" if gpus else "cpu"
    return [place_processes(cores=c, device=device, concurrent=concurrent) for c in cores]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", [*range(40), *(slow(seed) for seed in range(40, 200))])
def test_the_plan_is_what_runs(seed, present):
    draw = random.Random(seed)
    machine = numbered(draw.randint(1, 4), draw.randint(1, 12), draw.choice((1, 2)), draw.randint(0, 16))
    processors = list(machine.processors)
    online = set(processors) - set(draw.sample(processors, draw.randint(0, len(processors) // 4)))
    allowed = online if draw.random() < 0.5 else set(draw.sample(sorted(online), draw.randint(1, len(online))))
    gpus = sorted(draw.sample(machine.gpus, draw.randint(1, len(machine.gpus)))) if machine.gpus else []
    ranks = draw.randint(max(1, len(gpus)), 16)
    described = machine.restricted(sorted(allowed))
    present(machine, allowed)
    concurrent = draw.random() < 0.3
    planned = plan(gpus, ranks, concurrent)
    with hardware.described(described):
        assert plan(gpus, ranks, concurrent) == planned
    usable = hardware.usable_cores()
    home = {t: c for n in described.nodes for c in n.cores for t in c}
    node_of = {t: i for i, n in enumerate(described.nodes) for c in n.cores for t in c}
    node_of_gpu = {g: i for i, n in enumerate(described.nodes) for g in n.gpus}
    shares = [cores_of_rank(usable, gpus, ranks, r) for r in range(ranks)]
    nodes = [node_of_gpu[gpus[gpu_of_rank(r, ranks, len(gpus))]] if gpus else None for r in range(ranks)]
    for r, (cores, placement) in enumerate(zip(shares, planned, strict=True)):
        assert cores and set(cores) <= set(usable)
        if gpus:
            assert {node_of[t] for t in cores} == {nodes[r]}
        elsewhere = {home[t] for other, c in enumerate(shares) if other != r for t in c}
        sharing = [n for n in nodes if n == nodes[r]]
        of_node = {c for t, c in home.items() if not gpus or node_of[t] == nodes[r]}
        assert len(sharing) > len(of_node) or not elsewhere & {home[t] for t in cores}
        driving = {home[t] for t in (*placement.server_cores, *placement.learner_cores)}
        free = {home[t] for t in cores} - driving
        if gpus and ranks > 1 and free:
            assert not driving & {home[t] for t in placement.worker_cores if t is not None}


def test_a_dgx_1(present):
    machine = dgx1()
    present(machine, set(machine.processors))
    shares = [cores_of_rank(hardware.usable_cores(), list(range(8)), 8, r) for r in range(8)]
    assert shares[0] == (0, 1, 2, 3, 4, 40, 41, 42, 43, 44) and shares[7] == (35, 36, 37, 38, 39, 75, 76, 77, 78, 79)
    placement = place_processes(cores=shares[5], device="cuda:5")
    assert placement.server_cores == (25,) and placement.worker_cores == (26, 27, 28, 29, 66, 67, 68, 69)
    pairs = [cores_of_rank(hardware.usable_cores(), [0, 1], 4, r) for r in range(4)]
    assert [c[:5] for c in pairs] == [(0, 1, 2, 3, 4), (5, 6, 7, 8, 9), (10, 11, 12, 13, 14), (15, 16, 17, 18, 19)]


def test_gpus_count_in_the_order_in_which_the_run_sees_them(present, monkeypatch):
    machine = dgx1()
    present(machine, set(machine.processors))
    monkeypatch.setattr(hardware, "gpu_nodes", lambda: {6: 1, 1: 0})  # CUDA_VISIBLE_DEVICES=6,1
    assert cores_of_rank(hardware.usable_cores(), [0, 1], 2, 0)[0] == 20
    assert cores_of_rank(hardware.usable_cores(), [0, 1], 2, 1)[0] == 0


def test_gpus_whose_nodes_are_unknown_divide_all_cores(present, monkeypatch):
    present(numbered(2, 4, 1, 2), set(range(8)))
    monkeypatch.setattr(hardware, "gpu_nodes", dict)
    assert [cores_of_rank(range(8), [0, 1], 2, r) for r in range(2)] == [(0, 1, 2, 3), (4, 5, 6, 7)]
