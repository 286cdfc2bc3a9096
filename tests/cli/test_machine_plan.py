"""accel-rl doctor --machine: plans of runs for machines that a JSON file describes."""

import json
from pathlib import Path

import pytest

from accel_rl.cli.main import main
from accel_rl.machine import hardware
from accel_rl.machine.machine import of_cores, read_machine
from accel_rl.planning.plan import RunPlan
from accel_rl.settings.resolved import fill_in
from accel_rl.settings.train import default_config

ONE_GPU = 'cores = 16\nmemory = "128 GiB"\ngpus = {number = 1, memory = "139 GiB"}\n'
EIGHT_GPUS = 'cores = 16\nmemory = "512 GiB"\n[gpus]\nnumber = 8\nmemory = "80 GiB"\n'
FOUR_GPUS = json.dumps({"cores": 64, "memory": 2**38, "gpus": {"number": 4, "memory": 80 * 10**9}})
NO_GPU = 'cores = [3, 7]\nmemory = "8 GiB"\ngpus = 0\n'
QUOTA = 'cores = 16\nquota = 4\nmemory = "16 GiB"\n'


@pytest.fixture
def doctor(tmp_path: Path, capsys):
    """Run doctor with a description of a machine. Returns (exit code, standard output, standard error)."""

    def run(text: str, *argv: str) -> tuple[int, str, str]:
        file = tmp_path / ("machine.json" if text.startswith("{") else "machine.toml")
        file.write_text(text)
        code = main(["doctor", "--machine", str(file), *argv])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def pong(algorithm: str, *argv: str) -> tuple[str, ...]:
    return (algorithm, "--game", "pong", *argv)


def test_default_runs_on_16_cores_and_a_gpu(doctor):
    code, out, err = doctor(ONE_GPU)
    assert code == 0 and not err and "16 cores, 128 GiB of memory, 1 GPU of 139 GiB" in out
    for name in ("a2c", "ppo", "dqn"):
        assert f"accel-rl train {name} --game pong" in out
    assert out.count("rank 0 of 1 on cuda:0") == 3 and out.count("learner: on cores 0, 1 thread") == 3
    assert "replay: 7.8 GiB on cuda:0" in out and "page-locked, and as many on cuda:0" in out
    assert out.count("keep 8 of 15 cores busy; --sampler.envs 30 would use all") == 3


def test_faster_settings_of_q_learning_on_a_gpu_are_named(doctor):
    faster = "with --precision tfloat32"
    assert faster in doctor(ONE_GPU, *pong("dqn"))[1] and faster in doctor(ONE_GPU, *pong("rainbow"))[1]
    assert faster not in doctor(ONE_GPU, *pong("dqn", "--precision", "tfloat32"))[1]
    assert faster not in doctor(ONE_GPU, *pong("ppo"))[1] and faster not in doctor(NO_GPU, *pong("dqn"))[1]


def test_1024_environments_do_not_use_every_core_silently(doctor):
    code, out, _ = doctor(ONE_GPU, *pong("a2c", "--envs", "1024"))
    assert code == 0
    assert "warning: 1,024 environments in 2 groups keep 8 of 15 cores busy; --sampler.envs 1020 or 1050" in out
    _, out, _ = doctor(ONE_GPU, *pong("a2c", "--envs", "1020"))
    assert "15 workers on cores 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15" in out and "warning" not in out
    assert "a group has 510 environments, 34 of them on each worker" in out


def test_eight_ranks_on_eight_gpus(doctor):
    code, out, _ = doctor(EIGHT_GPUS, *pong("a2c", "--gpus", "0,1,2,3,4,5,6,7"))
    assert code == 0 and "warning" not in out
    for r in range(8):  # Each rank has two cores: one for the learner on its GPU, one for the worker.
        rank = out.split(f"rank {r} of 8 on cuda:{r}")[1].split("rank ")[0]
        assert f"1 worker on cores {2 * r + 1}" in rank and f"learner: on cores {2 * r}," in rank
        assert "B = 2 environments in 2 groups" in rank
    _, out, _ = doctor(EIGHT_GPUS, *pong("a2c"))
    assert "7 of 8 GPUs are not used; --gpus 0,1,2,3,4,5,6,7 uses all" in out
    _, out, _ = doctor(EIGHT_GPUS, *pong("a2c", "--gpus", "0,1", "--ranks", "32", "--envs", "64"))
    assert "32 ranks share 16 cores" in out


def test_64_cores_and_four_gpus(doctor):
    code, out, _ = doctor(FOUR_GPUS, *pong("dqn", "--gpus", "0,1,2,3", "--envs", "480"))
    assert code == 0 and "4 GPUs of 75 GiB" in out
    assert out.count("15 workers on cores") == 4 and "15 workers on cores 49 50" in out
    assert out.count("replay: 1.9 GiB on cuda:") == 4


def test_two_cores_without_a_gpu(doctor):
    code, out, _ = doctor(NO_GPU, *pong("a2c"))
    assert code == 0 and "rank 0 of 1 on cpu" in out and "2 workers on cores 3 7" in out
    assert "page-locked" not in out and "no GPU" in out


def test_the_quota_of_a_cgroup(doctor):
    _, out, _ = doctor(QUOTA, *pong("a2c"))
    assert "of which the cgroup grants 4" in out and "4 workers on cores 0 1 2 3" in out
    _, out, _ = doctor(QUOTA, *pong("a2c", "--workers", "8"))
    assert "warning: 8 workers share 4 cores" in out


def test_too_little_memory_is_a_problem(doctor):
    code, out, err = doctor('cores = 2\nmemory = "4 GiB"\n', *pong("dqn"))
    assert code == 1 and "1 wrong" in out
    assert "wrong: dqn: 8.0 GiB are needed on the host" in err and "4.0 GiB are there" in err
    code, _, err = doctor(ONE_GPU.replace("139", "4"), *pong("dqn"))
    assert code == 1 and "needed on the cuda:0" in err


def test_the_last_line_counts_problems_and_warnings(doctor):
    last = [
        doctor(text, *argv)[1].splitlines()[-1]
        for text, argv in (
            (ONE_GPU, pong("a2c", "--envs", "1020")),
            (ONE_GPU, pong("a2c", "--envs", "1024")),
            (ONE_GPU, ()),
            (ONE_GPU.replace("139", "4"), pong("dqn")),
        )
    ]
    assert last == ["nothing is wrong", "1 warning", "3 warnings", "1 wrong, 1 warning"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("cores = ", ["no TOML"]),
        ("{", ["no JSON"]),
        ("[1]\n", ["unknown key 1"]),
        ("memory = 1", ["cores is missing"]),
        ("cores = 4", ["memory is missing"]),
        ("cores = 4\nmemory = 1\ncors = 2", ["unknown key cors", "nearest: cores"]),
        ("cores = 0\nmemory = 1", ["cores = 0", "at least 1"]),
        ("cores = true\nmemory = 1", ["cores = True"]),
        ('cores = ["a"]\nmemory = 1', ["cores = ['a']"]),
        ('cores = 4\nmemory = "much"', ["memory = 'much'", "128 GiB"]),
        ('cores = 4\nmemory = "1 PB"', ["memory = '1 PB'"]),
        ("cores = 4\nmemory = 1\nquota = 0", ["quota = 0"]),
        ("cores = 4\nmemory = 1\ngpus = 2", ["gpus.memory is missing"]),
        ("cores = 4\nmemory = 1\ngpus = 'two'", ["gpus = 'two'", "number and memory"]),
        ("cores = 4\nmemory = 1\ngpus = {number = 1}", ["gpus.memory is missing", "80 GiB"]),
        ("cores = 4\nmemory = 1\ngpus = {number = -1, memory = 1}", ["gpus = -1"]),
    ],
)
def test_one_line_for_a_bad_file(doctor, text, parts):
    code, out, err = doctor(text)
    assert code == 2 and out == "" and len(err.splitlines()) == 1 and all(p in err for p in ("--machine", *parts)), err


@pytest.mark.parametrize(
    ("argv", "parts"),
    [
        (["--machine"], ["--machine", "missing"]),
        (["--machine=missing.toml"], ["missing.toml", "No such file"]),
        (["--machine", "."], ["--machine .", "directory"]),
    ],
)
def test_one_line_for_no_file(capsys, tmp_path, monkeypatch, argv, parts):
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", *argv]) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1 and all(part in err for part in parts), err


def test_settings_that_the_machine_lacks(doctor):
    code, _, err = doctor(NO_GPU, *pong("a2c", "--device", "cuda:0"))
    assert code == 2 and "--device cuda:0: not available" in err
    code, _, err = doctor(ONE_GPU, *pong("a2c", "--sampler.cores", "16"))
    assert code == 2 and "core 16 is not allowed" in err


def test_the_number_of_cores_and_gpus_is_enough_for_a_search(tmp_path: Path):
    (tmp_path / "m.toml").write_text("cores = 16\ngpus = 2")
    machine = read_machine(tmp_path / "m.toml")
    assert machine == of_cores(range(16), gpus=2) and machine.memory is None


def test_a_plan_for_another_machine_leaves_this_one_alone(tmp_path: Path):
    (tmp_path / "m.toml").write_text(ONE_GPU)
    machine, cores = read_machine(tmp_path / "m.toml"), hardware.allowed_cores()
    assert machine == of_cores(range(16), gpus=1, gpu_memory=139 * 2**30) and machine.memory == 128 * 2**30
    with hardware.described(machine) as said:
        assert RunPlan.resolve(fill_in(default_config("a2c"))).ranks[0].device == "cuda:0"
        assert hardware.free_memory() == machine.memory and hardware.free_memory("cuda:0") == machine.gpu_memory
    assert len(said) == 1 and hardware.allowed_cores() == cores
