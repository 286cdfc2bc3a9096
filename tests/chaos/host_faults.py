"""Faults of a host, and of the network between two hosts with one synchronous rank each."""

import signal
import subprocess
import time
from collections.abc import Callable

from tests.chaos import invariants
from tests.chaos.invariants import Violation
from tests.chaos.modes import ROWS
from tests.chaos.network import Network, network, torchrun
from tests.chaos.trial import LIMIT_S, Trial, signal_all

TIMEOUT_S = 15
"""Value of --distributed.timeout-s in the trials' runs."""


def undisturbed(t: Trial) -> None:
    """Train on two hosts without a fault."""
    _on_hosts(t, lambda net: None)


def slow_network(t: Trial) -> None:
    """From the run's beginning, delay packets by up to 200 ms, or lose up to 5 % of the packets."""

    def fault(net: Network) -> None:
        if t.rng.random() < 0.5:
            net.delay_s = t.rng.uniform(0.005, 0.02)
            t.hit(f"delay {net.delay_s * 1e3:.0f} ms")
        else:
            net.loss = t.rng.uniform(0.01, 0.05)
            t.hit(f"loss {net.loss:.1%}")

    _on_hosts(t, fault)


def cut_host(t: Trial) -> None:
    """Cut a host off from the network, for less than --distributed.timeout-s seconds or for ever."""
    seconds = t.rng.choice((1.0, 5.0, float("inf")))
    _on_hosts(t, lambda net: None, cut_s=seconds)


def kill_host(t: Trial) -> None:
    """Kill all processes of one host, and cut off the host's network."""
    _on_hosts(t, lambda net: None, kill=True)


def _on_hosts(t: Trial, fault: Callable[[Network], None], cut_s: float = 0.0, kill: bool = False) -> None:
    t.tracebacks = True  # If a rank fails, torchrun prints a traceback.
    with network(2, t.rng.randrange(1 << 30)) as net:
        fault(net)
        agents = _start(t, net)
        if (cut_s or kill) and t.until_row(agents[0], row := t.rng.randrange(1, ROWS)):
            victim = t.rng.randrange(2)
            t.hit(f"row {row}: host {victim} " + ("is killed" if kill else f"is cut off for {cut_s:g} s"))
            net.cut.add(victim)
            if kill:
                _kill(t, agents[victim])
            elif cut_s < TIMEOUT_S:
                time.sleep(cut_s)
                net.cut.clear()
        broken = kill or cut_s >= TIMEOUT_S
        codes = _ends(agents, t)
        t.check_progress(max(codes))
        if not broken and codes != [0, 0]:
            raise Violation("wrong", f"exit codes {codes}: {t.last_line()}")
        net.cut.clear()
        if broken and codes != [0, 0]:
            if not any(f"(host-{i})" in t.output() for i in range(2)):
                raise Violation("wrong", f"no line names a host: {t.last_line()}")
            if t.checkpoints() and (codes := _ends(_start(t, net), t)) != [0, 0]:
                raise Violation("lost", f"not resumed, exit codes {codes}: {t.last_line()}")
        if t.n_rows() == ROWS:
            invariants.check_end(t)
        elif t.checkpoints():
            raise Violation("lost", f"{t.n_rows()} of {ROWS} rows")
        t.leftovers.kill()


def _start(t: Trial, net: Network) -> list[subprocess.Popen]:
    """Start or resume the run on both hosts. Under torchrun, the same command starts and resumes a run."""
    arguments = t.mode.train(t.run, "--distributed.timeout-s", str(TIMEOUT_S))
    t.environment |= {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    agents = []
    for host in range(2):
        t.wrap = torchrun(net, host, ranks=1)
        agents.append(t.start(*arguments))
    return agents


def _ends(agents: list[subprocess.Popen], t: Trial) -> list[int]:
    """Wait until the ranks of both hosts have ended, and return the exit codes of torchrun's agents. The agent of a
    host that was cut off is killed, because it would wait for minutes after its rank's end."""
    deadline = time.monotonic() + LIMIT_S
    while waiting := [agent for agent in agents if agent.poll() is None]:
        codes = [agent.returncode for agent in agents]
        if any(codes) and not any(t.processes(agent, "accel_rl train") for agent in waiting):
            t.told.append("torchrun's agent was killed")
            for agent in waiting:
                _kill(t, agent)
        if time.monotonic() > deadline:
            raise Violation("hung", f"a host's rank has not ended within {LIMIT_S:g} s")
        time.sleep(0.1)
    return [agent.returncode for agent in agents]


def _kill(t: Trial, agent: subprocess.Popen) -> None:
    processes = t.processes(agent)
    agent.kill()
    signal_all(processes, signal.SIGKILL)
