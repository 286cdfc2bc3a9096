"""Slots of a described machine are disjoint and local to the GPU's node, and reserve a core per GPU."""

import itertools
from dataclasses import replace

import pytest

from accel_rl.machine import hardware
from accel_rl.machine.hardware import this_machine
from accel_rl.machine.machine import Machine, Node, numbers, ranges, read_machine
from accel_rl.machine.placement import describe_slots, describe_unused, share_of_cores, slots_of
from accel_rl.planning.rank_config import rank_config
from accel_rl.settings.resolved import ResolvedSampler
from accel_rl.settings.train import default_config
from accel_rl.text.errors import ConfigError

DGX1 = Machine(  # Two NUMA nodes, each with 20 cores of two hyperthreads and 4 GPUs.
    (
        Node(tuple((c, c + 40) for c in range(20)), (0, 1, 2, 3)),
        Node(tuple((c, c + 40) for c in range(20, 40)), (4, 5, 6, 7)),
    )
)
CORE_OF = {t: c for node in DGX1.nodes for c in node.cores for t in c}
NODE_OF_GPU = {g: i for i, node in enumerate(DGX1.nodes) for g in node.gpus}
NODE_OF_CORE = {t: i for i, node in enumerate(DGX1.nodes) for c in node.cores for t in c}


@pytest.mark.parametrize("runs_per_gpu", [1, 2])
@pytest.mark.parametrize(("gpus_per_run", "slots"), [(1, 8), (2, 4), (4, 2), (8, 1), (3, 2)])
def test_the_papers_machine(gpus_per_run, slots, runs_per_gpu):
    found = slots_of(DGX1, None, gpus_per_run, runs_per_gpu)
    assert len(found) == slots * runs_per_gpu
    for a, b in itertools.combinations(found, 2):
        # Two slots never use hyperthreads of the same core.
        assert not {CORE_OF[t] for t in a.held} & {CORE_OF[t] for t in b.held}
    for s in found:
        assert len(s.gpus) == gpus_per_run
        assert {NODE_OF_CORE[t] for t in s.held} == {NODE_OF_GPU[g] for g in s.gpus} == set(s.nodes)
        assert len(s.reserved) == gpus_per_run and set(s.reserved) <= set(s.cores)
        for gpu, core in zip(s.gpus, s.reserved, strict=True):
            assert NODE_OF_GPU[gpu] == NODE_OF_CORE[core]
            # The core that is reserved for a GPU's process belongs to no other process of the run.
            assert not set(CORE_OF[core]) - {core} & set(s.cores)
        assert {t for c in s.held for t in CORE_OF[c]} == set(s.held)  # hyperthreads together
        for i, gpu in enumerate(s.gpus):  # A rank's cores are on the NUMA node of its GPU.
            mine = share_of_cores(s.cores, gpus_per_run, i)
            assert mine[0] == s.reserved[i] and {NODE_OF_CORE[t] for t in mine} == {NODE_OF_GPU[gpu]}
        per_gpu = len({CORE_OF[t] for t in s.held}) / gpus_per_run
        assert per_gpu == (5 if runs_per_gpu == 1 else 2)  # A DGX-1 has five cores per GPU.
    if gpus_per_run < 8:
        assert all(len(s.nodes) == 1 for s in found)


def test_32_ranks_on_8_gpus_are_4_each_on_the_cores_of_their_gpu():
    slot, by_gpu = slots_of(DGX1, None, 8)[0], [set(s.held) for s in slots_of(DGX1, None, 1)]
    base = default_config("a2c")
    group = replace(base.distributed, ranks=32, update="async", gpus="0,1,2,3,4,5,6,7")
    config = replace(base, distributed=group, sampler=ResolvedSampler(**vars(base.sampler) | {"cores": slot.cores}))
    with hardware.described(DGX1):
        ranks = [rank_config(config, r) for r in range(32)]
    assert [r.device for r in ranks] == [f"cuda:{i // 4}" for i in range(32)]
    for i, rank in enumerate(ranks):
        assert rank.sampler.cores and set(rank.sampler.cores) <= by_gpu[i // 4]
        assert {NODE_OF_CORE[c] for c in rank.sampler.cores} == {NODE_OF_GPU[i // 4]}
    assert len({c for r in ranks for c in r.sampler.cores}) == sum(len(r.sampler.cores) for r in ranks)  # none twice


def test_some_gpus_share_all_cores_of_their_node():
    one = slots_of(DGX1, [5])
    assert len(one) == 1 and one[0].gpus == (5,) and set(one[0].held) == set(range(20, 40)) | set(range(60, 80))


def test_cores_alone_are_slots_of_whole_cores():
    slots = slots_of(DGX1, [], cores_per_run=4)
    assert len(slots) == 10 and slots[0].cores == (0, 1, 2, 3, 40, 41, 42, 43)
    assert sorted(t for s in slots for t in s.cores) == list(range(80))
    # A slot of 12 cores leaves 8 of its node's 20 cores unused.
    assert [len(s.nodes) for s in slots_of(DGX1, [], cores_per_run=12)] == [1, 1]
    assert slots_of(DGX1, [], cores_per_run=40)[0].nodes == (0, 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"gpus": [0, 9]}, ["--gpus 0,9", "GPU 9 is not there", "0-7"]),
        ({"gpus_per_run": 9}, ["--gpus-per-run 9", "8"]),
        ({"runs_per_gpu": 6}, ["--runs-per-gpu 6", "5 cores"]),
        ({"runs_per_gpu": 0}, ["--runs-per-gpu 0", "at least 1"]),
        ({"gpus": [], "cores_per_run": 41}, ["--cores-per-run 41", "40"]),
    ],
)
def test_what_is_not_there_is_refused(arguments, words):
    with pytest.raises(ConfigError) as e:
        slots_of(DGX1, **arguments)
    assert all(w in str(e.value) for w in words), str(e.value)


def test_no_gpu_at_all_is_said():
    with pytest.raises(ConfigError, match="no GPU"):
        slots_of(Machine((Node(((0,), (1,))),)), [0])


def test_a_file_gives_the_same_machine(tmp_path):
    file = tmp_path / "dgx1.json"
    file.write_text('{"nodes": 2, "cores_per_node": 20, "threads_per_core": 2, "gpus_per_node": 4}')
    assert read_machine(file) == DGX1
    file.write_text('{"nodes": [{"cores": [[0, 2], [1, 3]], "gpus": [0]}]}')
    assert read_machine(file) == Machine((Node(((0, 2), (1, 3)), (0,)),))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("{", "no JSON"),
        ('{"nodes": 2}', "cores_per_node"),
        ('{"nodes": 2, "cores_per_node": 2, "gpus_per_nodes": 1}', "nearest: gpus_per_node"),
        ('{"nodes": 0, "cores_per_node": 2}', "at least 1"),
        ('{"nodes": [{"cores": [[0], [0]]}]}', "core 0 is there twice"),
        ('{"nodes": [{"cores": [[0]], "gpu": [0]}]}', "unknown key gpu"),
        ('{"nodes": []}', "no core"),
    ],
)
def test_a_bad_file_is_one_line(tmp_path, text, word):
    file = tmp_path / "machine.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match="--machine") as e:
        read_machine(file)
    assert word in str(e.value) and "\n" not in str(e.value)


def test_this_machine_has_each_allowed_core_once(monkeypatch):
    monkeypatch.setattr("accel_rl.machine.hardware.allowed_cores", lambda: [0, 1, 3])
    monkeypatch.setattr("accel_rl.machine.hardware.cgroup_cpus", lambda: None)
    assert sorted(t for n in this_machine().nodes for c in n.cores for t in c) == [0, 1, 3]


def test_hyperthreads_and_nodes_are_read_from_the_system(tmp_path, monkeypatch):
    for cpu, siblings, node in ((0, "0,2", 0), (1, "1,3", 1), (2, "0,2", 0), (3, "1,3", 1)):
        folder = tmp_path / "cpu" / f"cpu{cpu}"
        (folder / "topology").mkdir(parents=True)
        (folder / f"node{node}").mkdir()
        (folder / "topology" / "thread_siblings_list").write_text(siblings + "\n")
    monkeypatch.setattr("accel_rl.machine.hardware.allowed_cores", lambda: [0, 1, 2, 3])
    monkeypatch.setattr("accel_rl.machine.hardware.cgroup_cpus", lambda: None)
    monkeypatch.setattr("accel_rl.machine.hardware.gpu_nodes", lambda: {0: 1})
    assert this_machine(str(tmp_path)) == Machine((Node(((0, 2),)), Node(((1, 3),), (0,))))


def test_lists_of_numbers():
    assert numbers("0-3,8") == [0, 1, 2, 3, 8] and ranges([8, 0, 1, 2, 3]) == "0-3,8" and ranges([]) == "-"
    for bad in ("", "a", "3-1", "1,1", "-1"):
        with pytest.raises(ConfigError, match="number"):
            numbers(bad)


def test_the_plan_says_what_no_slot_uses():
    assert describe_unused(DGX1, slots_of(DGX1, None, 3)) == [
        "in no slot: cores 15-19,35-39,55-59,75-79",
        "in no slot: GPUs 3,7",
    ]
    assert describe_unused(DGX1, slots_of(DGX1, None, 3) + slots_of(DGX1, None, 1)) == []
    assert all("idle beside the reserved" in line for line in describe_slots(slots_of(DGX1, None, 3))[1:])
