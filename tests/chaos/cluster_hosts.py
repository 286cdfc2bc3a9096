"""Train with a parameter server on a Ray cluster of several simulated hosts, and disturb the network of one host.

    python -m tests.chaos.cluster_hosts --hosts 3
    python -m tests.chaos.cluster_hosts --faults cut-60

The hosts are network namespaces (network.py). Each host has a Ray node with one shard of the parameters. The driver
runs on the first host. A run survives if it writes further rows after the fault, and then ends at Ctrl-C. A run that
does not survive must end with a line that names the disturbed host. The program needs root and Ray.
"""

import importlib.util
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_rl.text.counts import Count
from accel_rl.text.errors import ConfigError
from benchmarks.harness.program import machine, one_of, program
from benchmarks.harness.table import table
from tests.chaos.invariants import Violation
from tests.chaos.leftovers import MARK
from tests.chaos.modes import Mode
from tests.chaos.network import Network, can_make_networks, network
from tests.chaos.trial import Trial

START_S, FAULT_S = 400.0, 300.0
"""START_S: time limit in seconds for the first rows of a run. FAULT_S: time limit after a fault for further rows, or
for the run's end."""
ROWS_BEFORE, ROWS_AFTER = 3, 5
PORT = 6379
FAULTS = {"none": 0.0, "delay": 0.0, "loss": 0.0, "cut-5": 5.0, "cut-60": 60.0, "cut": float("inf")}
"""Maps each fault to the seconds for which the last host is cut off. With `delay`, each packet is delayed by 200 ms,
and with `loss`, 5 % of the packets are lost."""


@dataclass(frozen=True)
class Options:
    hosts: Count = 2
    """Number of hosts, 2 to 4."""
    faults: tuple[str, ...] = ()
    """Names of the faults, by default all."""
    keep: str = ""
    """Folder to which the files of failed trials are moved."""
    json: str = ""
    """Write all results also to the given JSON file."""

    def check(self) -> None:
        """Raise ConfigError if an option is impossible."""
        if not 2 <= self.hosts <= 4:
            raise ConfigError(f"--hosts {self.hosts}: must be 2 to 4")
        one_of("faults", self.faults, FAULTS)
        if reason := can_make_networks():
            raise ConfigError(f"tests.chaos.cluster_hosts: {reason}")
        if importlib.util.find_spec("ray") is None:
            raise ConfigError("tests.chaos.cluster_hosts needs Ray: pip install 'accel_rl[cluster]'")
        if self.keep:
            Path(self.keep).mkdir(parents=True, exist_ok=True)


def run_trials(o: Options) -> dict[str, Any]:
    """Run a trial of each fault, print each trial's result, and return all results."""
    trials = []
    for fault in o.faults or FAULTS:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="ray-") as root:
            outcome, text = _trial(fault, Path(root), o)
        print(f"{fault:7} {time.monotonic() - began:5.0f} s  {outcome}: {text}", flush=True)
        trials.append({"fault": fault, "outcome": outcome, "text": text})
    return {"trials": trials, "wrong": [t["text"] for t in trials if t["outcome"] not in ("survived", "ended")]}


def _trial(fault: str, root: Path, o: Options) -> tuple[str, str]:
    arguments = (
        f"dqn --env tests.catch:make --engine in-process --network a3c --envs 8 --replay.size 20000 --torch-threads 1 "
        f"--replay.start 500 --cluster gorila --bundles {o.hosts} --shards {o.hosts} --snapshot-updates 100 "
        f"--gorila.bundle-cpus 0.5 --address {Network.address(0)}:{PORT}"
    )
    t = Trial(Mode(arguments, exact=False, hosts=o.hosts), root / "trial", random.Random(0))
    with network(o.hosts) as net:
        try:
            outcome = _disturbed(t, net, root, fault)
        except Violation as e:
            outcome = e.kind, str(e)
            if o.keep:
                shutil.copytree(root / "trial", Path(o.keep) / fault, dirs_exist_ok=True)
        finally:
            t.leftovers.kill()
    return outcome


def _disturbed(t: Trial, net: Network, root: Path, fault: str) -> tuple[str, str]:
    """Start a cluster, start a run on the cluster, and cause the fault.

    Return the outcome, and the lines of output that name the disturbed host.
    """
    t.environment = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    for host in range(net.n_hosts):
        _start_node(t, net, host, root)
    t.wrap = net.inside(0)
    driver = t.train("--env-steps", "1e9")
    _await_rows(t, driver, ROWS_BEFORE, START_S)
    victim, seconds = net.n_hosts - 1, FAULTS[fault]
    if fault == "delay":
        net.delay_s = 0.2
    elif fault == "loss":
        net.loss = 0.05
    elif seconds:
        net.cut.add(victim)
        # Ray must notice within FAULT_S / 2 seconds that a host was cut off for ever.
        _await_end(driver, min(seconds, FAULT_S / 2))
        if seconds < FAULT_S:
            net.cut.clear()
    if driver.poll() is None:
        _await_rows(t, driver, t.n_rows() + ROWS_AFTER, FAULT_S)
    lines = [line for line in t.output().splitlines() if f"host-{victim}" in line]
    if driver.poll() is not None:
        if not lines or driver.returncode != 1:
            raise Violation("wrong", f"exit code {driver.returncode}, and no line names the host: {t.last_line()}")
        return "ended", lines[-1]
    driver.send_signal(signal.SIGINT)
    t.wait(driver, (130,))
    steps = [int(line.split(",")[0]) for line in (t.run / "metrics.csv").read_text().splitlines()[1:]]
    if steps != sorted(set(steps)):
        raise Violation("wrong", f"the rows of metrics.csv are not ascending: {steps}")
    return "survived", "; ".join(lines) or "-"


def _start_node(t: Trial, net: Network, host: int, root: Path) -> None:

    place = ("--head", "--port", str(PORT), "--temp-dir", str(root), "--include-dashboard", "false")
    if host:
        place = ("--address", f"{net.address(0)}:{PORT}")
    node = ("--node-ip-address", net.address(host), "--num-cpus", "2", "--object-store-memory", str(80 << 20))
    output = root / f"node-{host}.txt"
    with open(output, "wb") as file:
        process = subprocess.Popen(
            [*net.inside(host), sys.executable, "-m", "ray.scripts.scripts", "start", *place, *node, "--block"],
            env={**os.environ, **t.environment, MARK: t.leftovers.mark}, stdout=file, stderr=file,
            start_new_session=True,
        )  # fmt: skip
    deadline = time.monotonic() + START_S
    while "Ray runtime started" not in output.read_text():
        if process.poll() is not None or time.monotonic() > deadline:
            raise Violation("wrong", f"the Ray node of host {host} did not start: {output.read_text()[-300:]}")
        time.sleep(0.2)


def _await_rows(t: Trial, driver: subprocess.Popen, rows: int, seconds: float) -> None:
    """Wait until the run has `rows` rows, or has ended."""
    deadline = time.monotonic() + seconds
    while t.n_rows() < rows and driver.poll() is None:
        if time.monotonic() > deadline:
            raise Violation("hung", f"{t.n_rows()} rows, and no further one within {seconds:g} s: {t.last_line()}")
        time.sleep(0.1)


def _await_end(process: subprocess.Popen, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)


def report(o: Options, result: dict[str, Any]) -> list[str]:
    """Return a table of the outcomes."""
    m = machine()
    rows = [[t["fault"], t["outcome"], t["text"]] for t in result["trials"]]
    return ["", f"{m['cpu']}, {m['date']}, {o.hosts} hosts", "", *table(["fault", "outcome", "lines"], rows)]


if __name__ == "__main__":
    sys.exit(program("tests.chaos.cluster_hosts", __doc__, Options, sys.argv[1:], run_trials, report))
