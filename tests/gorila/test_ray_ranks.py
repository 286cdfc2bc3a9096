"""Synchronous ranks that Ray starts on one node, or on two nodes on the same machine."""

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from importlib.util import find_spec

import psutil
import pytest

from accel_rl.checkpoints.checkpoint import Checkpoints
from accel_rl.gorila.check_settings import check_ray_ranks
from accel_rl.gorila.ray_ranks import train
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.config_file import FORMAT
from accel_rl.settings.resolved import resolve
from accel_rl.settings.train import TrainConfig
from accel_rl.text.errors import ConfigError, RunError
from tests.gorila.local_cluster import local_cluster
from tests.integration.runs import checkpoint_bytes, progressed, rows, run, wait_for
from tests.integration.test_ranks import CARTPOLE, events

WITH_RAY = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed (extra cluster)")


def settings(**changes):
    """Return the settings of an A2C run on CartPole with two ranks."""
    values = {
        "format": FORMAT,
        "algorithm": "a2c",
        "env": {"id": "CartPole-v1"},
        "sampler": {"envs": 8, "engine": "in-process"},
        "evaluation": {"interval": 0},
        "log": {"interval": 400},
        "torch_threads": 1,
        "seed": 3,
        **changes,
    }
    values["distributed"] = {"ranks": 2, **changes.get("distributed", {})}
    return TrainConfig.from_dict(values)


def created(folder, config):
    config = dataclasses.replace(resolve(config), run_dir=str(folder))
    return config, RunFolder.create(folder, config)


@pytest.fixture(scope="module")
def cluster():
    with local_cluster(nodes=2, cpus=2) as cluster:
        yield cluster


def ranks_of(cluster, node):
    """Return the processes of the ranks that run on a node of the cluster."""
    found = []
    for pid in cluster.pids(node):
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            found += [process] if "accel_rl.ranks.rank" in process.cmdline() else []
    return found


def in_background(act):
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread


@pytest.mark.slow
@WITH_RAY
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("strategy", "per_node"), [("PACK", {0, 2}), ("SPREAD", {1})])
def test_ranks_on_ray_equal_those_of_one_machine_bit_for_bit(cluster, tmp_path, strategy, per_node):
    """Two ranks that Ray starts learn the same parameters as two ranks of one machine, bit for bit. The ranks listen
    only on loopback."""
    config, folder = created(tmp_path / "ray", settings(env_steps=8_000))
    seen = {}

    def look():
        wait_for(lambda: progressed(folder.path, 1), 120)
        processes = [ranks_of(cluster, i) for i in (0, 1)]
        seen["per_node"] = {len(p) for p in processes}
        ports = [c for ps in processes for p in ps for c in p.net_connections("inet") if c.status == "LISTEN"]
        seen["addresses"] = {c.laddr.ip.removeprefix("::ffff:") for c in ports}

    looking = in_background(look)
    result = train(config, cluster.ray, folder, strategy)
    looking.join()
    assert (result.env_steps, result.exit_code) == (8_000, 0)
    assert seen == {"per_node": per_node, "addresses": {"127.0.0.1"}}
    args = (*CARTPOLE, "--env-steps", 8_000, "--ranks", 2, "--run-dir", tmp_path / "one")
    done = run("train", "a2c", *args)
    assert done.returncode == 0, done.stderr
    assert rows(folder.path) == rows(tmp_path / "one")
    a, b = (checkpoint_bytes(path / "ranks/1") for path in (folder.path, tmp_path / "one"))
    assert set(a) == set(b) and [name for name in a if a[name] != b[name]] == []
    wait_for(lambda: not ranks_of(cluster, 0) + ranks_of(cluster, 1), 20)


@pytest.mark.slow
@WITH_RAY
@pytest.mark.timeout(300)
def test_a_killed_rank_is_named(cluster, tmp_path):
    config, folder = created(tmp_path / "run", settings(env_steps=30_000, checkpoint={"interval": 2_000}))

    def kill():
        wait_for(lambda: Checkpoints(folder.path / "checkpoints").steps(), 120)
        os.kill(ranks_of(cluster, 1)[0].pid, signal.SIGKILL)

    killing = in_background(kill)
    with pytest.raises(RunError, match=r"^rank \d \(pid \d+\) was killed by SIGKILL on 127.0.0.1$"):
        train(config, cluster.ray, folder, "SPREAD")
    killing.join()
    wait_for(lambda: not ranks_of(cluster, 0) + ranks_of(cluster, 1), 20)


@pytest.mark.slow
@WITH_RAY
@pytest.mark.timeout(300)
def test_more_ranks_than_cpus_are_refused(cluster, tmp_path):
    config, folder = created(tmp_path / "run", settings(distributed={"ranks": 8}))
    with pytest.raises(ConfigError, match=r"^--ranks 8: the Ray cluster has 4 CPUs, a rank needs one$"):
        train(config, cluster.ray, folder)


DRIVER = """
import sys
from pathlib import Path
from accel_rl.gorila.ray_ranks import train
from accel_rl.gorila.ray_session import local_ray
from accel_rl.run.run_folder import RunFolder
run, config = RunFolder.open(Path(sys.argv[1]))
with local_ray(cpus=2) as ray:
    result = train(config, ray, run)
    print("result", result.exit_code, result.env_steps)
"""


@pytest.mark.slow
@WITH_RAY
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_ctrl_c_saves_and_a_killed_driver_leaves_nothing(tmp_path, number):
    _, folder = created(tmp_path / "run", settings(env_steps=10_000_000, checkpoint={"interval": 0}))
    command, errors = [sys.executable, "-c", DRIVER, str(folder.path)], tmp_path / "stderr"
    with open(errors, "w") as file:
        process = subprocess.Popen(command, stdout=-1, stderr=file, text=True, start_new_session=True)
    wait_for(lambda: progressed(folder.path, 2), 120)
    wait_for(lambda: "steps/s" in errors.read_text(), 30, "rank 0's progress, on the driver's terminal")
    children = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, number)
    out, _ = process.communicate(timeout=100)
    began = time.monotonic()
    psutil.wait_procs(children, timeout=30)
    left = [p for p in children if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
    print(f"gone after {time.monotonic() - began:.1f} s", out, errors.read_text())
    assert not left
    if number == signal.SIGINT:
        (steps,) = Checkpoints(folder.path / "checkpoints").steps()
        assert f"result 130 {steps}" in out, errors.read_text()


@pytest.mark.slow
@WITH_RAY
@pytest.mark.timeout(300)
def test_a_lost_node_is_survived(cluster, tmp_path):
    """The ranks of a killed node start again on the remaining nodes. No later test may use the cluster."""
    changes = {"checkpoint": {"interval": 2_000}, "distributed": {"max_restarts": 1, "timeout_s": 30.0}}
    config, folder = created(tmp_path / "run", settings(env_steps=30_000, **changes))

    def kill():
        wait_for(lambda: Checkpoints(folder.path / "checkpoints").steps(), 120)
        cluster.kill_node(1)

    killing = in_background(kill)
    assert train(config, cluster.ray, folder, "SPREAD").env_steps >= 30_000
    killing.join()
    lines = events(folder.path)
    assert "is gone: its actor or node was lost on 127.0.0.1; restart 1 of 1 from " in lines
    steps = [int(r["env_steps"]) for r in rows(folder.path)]
    assert steps == sorted(set(steps))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"update": "async"}, "--update async: must be all-reduce for ranks on a Ray cluster"),
        ({"gpus": "0,1"}, "--gpus 0,1: Ray assigns GPUs to ranks; leave it out"),
    ],
)
def test_settings_that_ray_cannot_have_are_one_line(changes, line):
    config = TrainConfig()
    with pytest.raises(ConfigError, match=f"^{line}$"):
        check_ray_ranks(dataclasses.replace(config, distributed=dataclasses.replace(config.distributed, **changes)))
