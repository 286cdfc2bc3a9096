"""Faults of processes: kills, signals, resource limits, hostile clients, failing environments. Failing system calls are
tested in tests/calls."""

import contextlib
import resource
import shutil
import signal
import socket
import subprocess
import time

import psutil

from tests.chaos import invariants, run_files
from tests.chaos.modes import ENV_STEPS
from tests.chaos.trial import STOP_LIMIT_S, Trial, signal_all

WORKER = "accel_rl.samplers.workers.worker"
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def kill_run(t: Trial) -> None:
    """SIGKILL the main process, or all processes of the run at once, at up to three random moments."""
    process = t.train()
    for _ in range(t.rng.randint(1, 3)):
        if not t.moment(process):
            break
        kill(t, process, t.rng.random() < 0.3)
        process = t.resume()
    t.wait(process)
    t.finish()


def kill(t: Trial, process: subprocess.Popen, is_group: bool = False) -> None:
    """SIGKILL the main process, or every process of the run, unless the run has ended."""
    if process.poll() is None:
        t.hit("SIGKILL to " + ("all" if is_group else "main"))
        signal_all([*(t.processes(process) if is_group else []), psutil.Process(process.pid)], signal.SIGKILL)
    t.wait(process, (-signal.SIGKILL, 0))


def kill_while_starting(t: Trial) -> None:
    """SIGKILL the main process while the run starts, or while a stopped run resumes from a checkpoint."""
    process = t.train()
    if t.rng.random() < 0.7:
        if not t.moment(process):
            t.finish()
            return
        t.stop(process, signal.SIGTERM)
        if run_files.newest(t.run) >= ENV_STEPS:  # The stop request came after the run's end.
            t.finish()
            return
        process = t.resume()
        t.until_resumed(process)
    time.sleep(delay_s := t.rng.uniform(0, 2))
    t.told.append(f"{delay_s:.2f} s of the start")
    kill(t, process)
    t.finish()


def stop_run(t: Trial) -> None:
    """Send SIGTERM, SIGINT or SIGHUP to the main process or to the whole process group, once or twice."""
    process = t.train()
    number, group, times = t.rng.choice(SIGNALS), t.rng.random() < 0.5, t.rng.choice((1, 1, 2))
    if t.moment(process):
        t.stop(process, number, group, times)
    t.wait(process)
    t.finish()


def kill_worker(t: Trial) -> None:
    """SIGKILL one to four worker processes. The run must continue with new worker processes."""
    t.same = False
    process = t.train()
    for _ in range(t.rng.randint(1, 4)):
        if t.moment(process):
            signal_worker(t, process, signal.SIGKILL)
    t.finish_undisturbed(process)


def signal_worker(t: Trial, process: subprocess.Popen, number: signal.Signals) -> None:
    """Send a signal to one of the worker processes."""
    if (workers := t.processes(process, WORKER)) and signal_all([t.rng.choice(workers)], number):
        t.hit(f"{number.name} to a worker")


def freeze_worker(t: Trial) -> None:
    """SIGSTOP a worker process for ever."""
    t.same = False
    process = t.train("--sampler.timeout-s", "3", "--sampler.start-timeout-s", "20")
    if t.moment(process):
        signal_worker(t, process, signal.SIGSTOP)
    t.finish_undisturbed(process)


def stop_without_worker(t: Trial) -> None:
    """SIGSTOP or SIGKILL a worker process, and a moment later request a stop of the run, or kill the run.

    Although the worker process does not answer, a stop request must end the run with a checkpoint within STOP_LIMIT_S.
    """
    t.same = False
    process = t.train()
    if t.moment(process):
        signal_worker(t, process, t.rng.choice((signal.SIGSTOP, signal.SIGKILL)))
        time.sleep(t.rng.choice((0, 0.1, 0.5)))
        if t.rng.random() < 0.7:
            t.stop(process, t.rng.choice(SIGNALS))
        else:
            kill(t, process)
    t.wait(process)
    t.finish()


def freeze_run(t: Trial) -> None:
    """SIGSTOP all processes of a run for some seconds."""
    process = t.train()
    if t.moment(process):
        processes = [*t.processes(process), psutil.Process(process.pid)]
        t.rng.shuffle(processes)
        if signal_all(processes, signal.SIGSTOP):
            t.hit("SIGSTOP to all")
        time.sleep(t.rng.uniform(0.5, 4))
        t.rng.shuffle(processes)
        signal_all(processes, signal.SIGCONT)
    t.finish_undisturbed(process)


def signal_rank(t: Trial, process: subprocess.Popen, number: signal.Signals) -> bool:
    """Wait for a random moment of the run, and send a signal to one rank. Return whether the rank has received the
    signal."""
    ranks = [p for p in t.processes(process) if p.ppid() == process.pid] if t.moment(process) else []
    if received := bool(ranks) and signal_all([t.rng.choice(ranks)], number):
        t.hit(f"{number.name} to a rank")
    return received


def kill_rank(t: Trial) -> None:
    """SIGKILL one rank. Asynchronous ranks continue, and synchronous ranks restart from the newest checkpoint."""
    process = t.train()
    for _ in range(t.rng.randint(1, 2)):
        signal_rank(t, process, signal.SIGKILL)
    t.finish_undisturbed(process)


def stop_rank(t: Trial) -> None:
    """Send SIGTERM to one rank, which must stop all ranks."""
    process = t.train()
    t.incomparable.add("best-training")
    if signal_rank(t, process, signal.SIGTERM):
        code = t.wait(process, (0, 143), STOP_LIMIT_S)
        t.check_progress(is_stop=code == 143)
    t.wait(process)
    t.finish()


def without_locks(t: Trial) -> None:
    """Let flock fail as on a file system without locks. A second process that resumes the run must be refused, and the
    killed run must be resumed."""
    error = t.rng.choice(("ENOLCK", "ENOSYS", "EOPNOTSUPP"))
    t.wrap = [*strace(t, f"flock:error={error}:when=1+"), "-P", str(t.run / ".lock")]
    process = t.train()
    if t.moment(process):
        running = t.processes(process)
        # The first process is suspended, so that it cannot end before the second process begins.
        signal_all(running, signal.SIGSTOP)
        t.hit("two processes, SIGKILL to all")
        t.wait(t.resume(), (2,))
        signal_all(running, signal.SIGKILL)
    t.wait(process)
    t.finish()


def strace(t: Trial, inject: str) -> list[str]:
    """Return the words of strace that are put before a command. The argument `inject` is the value of strace's option
    `-e inject=`."""
    trace = ["-e", f"trace={inject.split(':')[0]}", "-e", f"inject={inject}"]
    return ["strace", "--seccomp-bpf", "-f", "-qq", "-o", str(t.folder / "strace.txt"), *trace]


def has_strace() -> str:
    """Return the reason why system calls cannot be disturbed, or ""."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    done = subprocess.run(["strace", "--seccomp-bpf", "-f", "-qq", "true"], capture_output=True, text=True)
    return "" if done.returncode == 0 else f"strace does not work: {done.stderr.strip().splitlines()[-1:]}"


def limits(t: Trial) -> None:
    """From a random moment on, limit the files that the main process may open, the length of its files, or its
    memory."""
    process = t.train()
    if t.moment(process):
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
            t.hit(f"RLIMIT_{name} {limit}")
        except (ProcessLookupError, psutil.NoSuchProcess):
            t.missed("too late")
    t.wait(process, (0, 1))
    t.finish()


def hostile_clients(t: Trial) -> None:
    """Send invalid messages to each port on which a process of the run listens, and keep connections open."""
    process = t.train()
    if not t.moment(process):
        t.finish_undisturbed(process)
        return
    ports: set[tuple[str, int]] = set()
    for p in (psutil.Process(process.pid), *t.processes(process)):
        with contextlib.suppress(psutil.Error):
            ports |= {c.laddr for c in p.net_connections("tcp") if c.status == psutil.CONN_LISTEN}
    with contextlib.ExitStack() as clients:
        for port in sorted(ports):
            for data in (b"GET / HTTP/1.1\r\n\r\n", t.rng.randbytes(100_000), bytes(8), b"\xff" * 8, b""):
                with contextlib.suppress(OSError):
                    client = clients.enter_context(socket.create_connection(port, timeout=1))
                    client.sendall(data)
                    t.acted = True
        t.told.append(f"{len(ports)} ports")
        t.finish_undisturbed(process)


def environments(t: Trial) -> None:
    """Let an environment exit, be killed, raise or block in step CHAOS_STEP, either once or in each new environment."""
    t.same, t.tracebacks = False, True
    fault = t.rng.choice(("exit", "kill", "segfault", "raise", "block", "interrupt", "close"))
    step, repeated = t.rng.randint(1, 300), t.rng.random() < 0.3
    once = "" if repeated else str(t.folder / "once")
    t.environment |= {"CHAOS_FAULT": fault, "CHAOS_STEP": str(step), "CHAOS_ONCE": once}
    faulty = {"CartPole-v1": "tests.chaos.faulty_environment:make"}
    arguments = [faulty.get(word, word) for word in t.mode.train(t.run)]
    process = t.start(*arguments, "--sampler.timeout-s", "3")
    t.hit(f"{fault} at step {step}" + (", repeatedly" if repeated else ""))
    t.wait(process, (0, 1))
    if repeated:
        invariants.check_surroundings(t)
    else:
        t.finish()
