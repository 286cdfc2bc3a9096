"""This module has faults of processes: kills, signals, stopped processes, failing system calls, limits, and faulty
environments."""

import os
import resource
import shutil
import signal
import subprocess
import time

import psutil

from tests.chaos.modes import ROWS
from tests.chaos.trial import Trial, signal_all

WORKER = "accel_rl.samplers.workers.worker"
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def moment(t: Trial, process: subprocess.Popen) -> bool:
    """Wait for a random moment of the run. Return False if the run has ended."""
    row, delay_s = t.rng.randrange(ROWS), t.rng.choice((0.0, t.rng.uniform(0, 0.3)))
    running = t.until_row(process, row, delay_s)
    t.told.append(f"row {row} + {delay_s:.2f} s" + ("" if running else ", too late"))
    return running


def kill_run(t: Trial) -> None:
    """SIGKILL the main process, or every process at once, at up to three moments."""
    process = t.train()
    for _ in range(t.rng.randint(1, 3)):
        if moment(t, process):
            kills_group = t.rng.random() < 0.3
            signal_all([*(t.processes(process) if kills_group else []), psutil.Process(process.pid)], signal.SIGKILL)
            t.told.append("SIGKILL to " + ("all" if kills_group else "main"))
            t.wait(process, (-signal.SIGKILL,))
        if not t.checkpoints():
            break
        process = t.resume()
    t.wait(process)
    t.finish()


def kill_while_starting(t: Trial) -> None:
    """SIGKILL the main process within the first seconds, before the first row of metrics."""
    process = t.train()
    time.sleep(delay_s := t.rng.uniform(0, 4))
    t.told.append(f"SIGKILL after {delay_s:.2f} s")
    process.kill()
    t.wait(process)
    t.finish()


def stop_run(t: Trial) -> None:
    """Send SIGTERM, SIGINT or SIGHUP to the main process or to the whole process group, once or twice."""
    process = t.train()
    number, group = t.rng.choice(SIGNALS), t.rng.random() < 0.5
    if moment(t, process):
        t.told.append(f"{number.name} to the {'group' if group else 'main process'}")
        for i in range(t.rng.choice((1, 1, 2))):
            time.sleep(i * t.rng.uniform(0, 0.1))
            (os.killpg if group else os.kill)(process.pid, number)
        # The signal does not change the exit code of a run that has just finished, or that has not installed its
        # handlers yet.
        t.wait(process, (0, 128 + number, -number))
    t.wait(process)
    t.finish()


def kill_worker(t: Trial) -> None:
    """SIGKILL one to four workers. The run continues with new workers."""
    t.same = False
    process = t.train()
    for _ in range(t.rng.randint(1, 4)):
        if moment(t, process) and (workers := t.processes(process, WORKER)):
            signal_all([t.rng.choice(workers)], signal.SIGKILL)
    t.wait(process, (0,))
    t.check()


def freeze_worker(t: Trial) -> None:
    """SIGSTOP a worker for ever."""
    t.same = False
    process = t.train("--sampler.timeout-s", "3", "--sampler.start-timeout-s", "20")
    if moment(t, process) and (workers := t.processes(process, WORKER)):
        signal_all([t.rng.choice(workers)], signal.SIGSTOP)
    t.wait(process, (0,))
    t.check()


def freeze_run(t: Trial) -> None:
    """SIGSTOP all processes of a run for some seconds."""
    process = t.train()
    if moment(t, process):
        processes = [*t.processes(process), psutil.Process(process.pid)]
        t.rng.shuffle(processes)
        signal_all(processes, signal.SIGSTOP)
        time.sleep(t.rng.uniform(0.5, 4))
        t.rng.shuffle(processes)
        signal_all(processes, signal.SIGCONT)
    t.wait(process, (0,))
    t.check()


def kill_rank(t: Trial) -> None:
    """SIGKILL one rank. Asynchronous ranks continue, and synchronous ranks restart from the newest checkpoint."""
    process = t.train()
    for _ in range(t.rng.randint(1, 2)):
        if moment(t, process) and (ranks := [p for p in t.processes(process) if p.ppid() == process.pid]):
            signal_all([t.rng.choice(ranks)], signal.SIGKILL)
    t.wait(process, (0,))
    t.check()


def stop_rank(t: Trial) -> None:
    """Send SIGTERM to one rank, which must stop all ranks."""
    process = t.train()
    if moment(t, process) and (ranks := [p for p in t.processes(process) if p.ppid() == process.pid]):
        signal_all([t.rng.choice(ranks)], signal.SIGTERM)
        t.wait(process, (0, 143))
    t.wait(process)
    t.finish()


CALLS = {"fsync": 40, "rename": 16, "mkdir": 12, "unlink": 6, "write": 300, "ftruncate": 4, "openat": 1_500}
"""The main process is killed at the n-th call of one of these system calls, up to the given n."""


def kill_at_call(t: Trial) -> None:
    """SIGKILL the main process at its n-th fsync, rename, write, ..., of the first run and of the resumed one."""
    for begin in (t.train, t.resume):
        call = t.rng.choice(list(CALLS))
        n = t.rng.randint(1, CALLS[call])
        t.told.append(f"SIGKILL at {call} {n}")
        t.wait(begin(wrap=strace(t, f"{call}:signal=KILL:when={n}")))
        if not t.checkpoints():
            break
    t.finish()


ERRORS = {"fsync": "EIO ENOSPC EDQUOT", "rename": "EIO ENOSPC EDQUOT EROFS", "mkdir": "ENOSPC EDQUOT EROFS"}


def fail_call(t: Trial) -> None:
    """Let a file system call fail, from the n-th call on or at some calls only. The run may end, with code 1."""
    call = t.rng.choice(list(ERRORS))
    error, n = t.rng.choice(ERRORS[call].split()), t.rng.randint(1, CALLS[call])
    when = t.rng.choice((f"{n}", f"{n}+", f"{n}..{n + t.rng.randint(1, 5)}"))
    t.told.append(f"{error} at {call} {when}")
    t.wait(t.train(wrap=strace(t, f"{call}:error={error}:when={when}")), (0, 1, 2))
    t.finish()


def strace(t: Trial, inject: str) -> list[str]:
    """Return a command that runs its arguments and injects a fault into a system call of the main process."""
    log = str(t.folder / "strace.txt")
    trace = ["-e", f"trace={inject.split(':')[0]}", "-e", f"inject={inject}"]
    return ["strace", "--seccomp-bpf", "-f", "-qq", "-o", log, *trace]


def has_strace() -> str:
    """Return why system calls cannot be disturbed, or ""."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    done = subprocess.run(["strace", "--seccomp-bpf", "-f", "-qq", "true"], capture_output=True, text=True)
    return "" if done.returncode == 0 else f"strace does not work: {done.stderr.strip().splitlines()[-1:]}"


def limits(t: Trial) -> None:
    """From a random moment on, limit the files that the main process may open, the length of its files, or its
    memory."""
    process = t.train()
    if moment(t, process):
        name = t.rng.choice(("NOFILE", "FSIZE", "AS"))
        main = psutil.Process(process.pid)
        try:
            limit = {
                "NOFILE": lambda: main.num_fds() + t.rng.randint(0, 4),
                "FSIZE": lambda: t.rng.choice((0, 1_000, 20_000, 200_000)),
                "AS": lambda: main.memory_info().vms + t.rng.randrange(0, 1 << 26),
            }[name]()
            hard = resource.prlimit(process.pid, getattr(resource, f"RLIMIT_{name}"))[1]
            resource.prlimit(process.pid, getattr(resource, f"RLIMIT_{name}"), (limit, hard))
            t.told.append(f"RLIMIT_{name} {limit}")
        except (ProcessLookupError, psutil.NoSuchProcess):
            t.told.append("too late")
    t.wait(process, (0, 1))
    t.finish()


def environments(t: Trial) -> None:
    """Let one environment exit, be killed, raise or block, in one step or in every episode."""
    t.same, t.tracebacks = False, True
    fault = t.rng.choice(("exit", "kill", "segfault", "raise", "block", "interrupt", "close"))
    step, repeated = t.rng.randint(1, 300), t.rng.random() < 0.3
    t.told.append(f"{fault} at step {step}" + (", repeatedly" if repeated else ""))
    t.environment = {
        "CHAOS_FAULT": fault, "CHAOS_STEP": str(step), "CHAOS_ONCE": "" if repeated else str(t.folder / "once")
    }  # fmt: skip
    arguments = [
        "tests.chaos.faulty_environment:make" if word == "CartPole-v1" else word for word in t.mode.train(t.run)
    ]
    t.wait(t.start(*arguments, "--sampler.timeout-s", "3"), (0, 1))
    if repeated:
        t.check_surroundings()
    else:
        t.finish()
