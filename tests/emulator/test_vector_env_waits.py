"""No call of VectorEnv waits for ever: not after close(), in a forked process, in several threads, at Ctrl-C or at
exit.

Each test case runs in a new process, which must end within LIMIT_S.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from gymnasium import error

pytest.importorskip("accel_rl.emulator._core")

from accel_rl.emulator import VectorEnv
from tests.marks import slow

LIMIT_S = 60
START = """
import gc, os, signal, sys, threading, time
import numpy as np
from gymnasium import error
from accel_rl.emulator import VectorEnv
from tests.marks import slow
zeros = np.zeros(2, int)
env = VectorEnv("pong", 2)
env.reset(seed=1)
"""
# A step of 1,024 frames takes so long that calls must wait for its end.
LONG = "env = VectorEnv('pong', 1, frameskip=1024, num_threads=1)\nenv.reset(seed=1)\n"


def run(code: str) -> str:
    """Run a program, and return its output."""
    result = subprocess.run([sys.executable, "-c", START + code], timeout=LIMIT_S, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "Exception ignored" not in result.stderr, result.stderr
    return result.stdout


@pytest.mark.parametrize("call", ["step(np.zeros(2, int))", "send(np.zeros(2, int))", "reset()"])
def test_calls_after_close_are_refused(call: str) -> None:
    env = VectorEnv("pong", 2)
    env.reset(seed=1)
    env.close()
    env.close()
    with pytest.raises(error.ClosedEnvironmentError, match="is closed"):
        eval(f"env.{call}", {"env": env, "np": np})


def test_recv_after_close_is_refused() -> None:
    env = VectorEnv("pong", 2)
    env.reset(seed=1)
    env.send(np.zeros(2, int))
    env.close()
    with pytest.raises(error.ClosedEnvironmentError, match="is closed"):
        env.recv()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("pending", [False, True])
def test_a_forked_child_gets_an_error(pending: bool) -> None:
    code = f"""
for call in "env.step(zeros)", "env.reset()", "env.recv()", "env.restore_state([b'', b''])":
    {"env.send(zeros)" if pending else "pass"}
    if not (pid := os.fork()):
        try:
            exec(call)
        except (error.ClosedEnvironmentError, error.AlreadyPendingCallError, error.NoAsyncCallError) as e:
            print(e, flush=True)
            os._exit(0)
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0, call
    {"env.recv()" if pending else "env.step(zeros)"}  # The parent's threads still play.
"""
    messages = run(code).splitlines()
    allowed = ("created before a fork", "call recv() first", "without send()")
    assert len(messages) == 4 and all(any(text in message for text in allowed) for message in messages), messages


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_may_drop_its_reference() -> None:
    code = """
for end in "del env; gc.collect()", "env.close(); env.close()", "sys.exit(0)":
    if not (pid := os.fork()):
        exec(end)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0, end
    env.step(zeros)  # The parent's threads still play.
"""
    run(code)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_worker_of_multiprocessing_ends_and_can_create_its_own() -> None:
    code = """
import multiprocessing
def play(seed):
    own = VectorEnv("pong", 2)
    own.reset(seed=seed)
    return own.step(zeros)[0].sum()
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert len(set(pool.map(play, [1, 1, 1, 1]))) == 1
env.step(zeros)
"""
    run(code)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_an_async_vector_env_with_an_environment_from_before_the_fork_raises() -> None:
    code = """
import accel_rl, gymnasium
from gymnasium.vector import AsyncVectorEnv
gymnasium.register_envs(accel_rl.gym)
one = gymnasium.make("accel_rl/Pong-v5")
one.reset(seed=1)
envs = AsyncVectorEnv([lambda: one], context="fork", shared_memory=False)
try:
    envs.reset()
except error.ClosedEnvironmentError as e:
    print(e)
envs.close(terminate=True)
"""
    assert "created before a fork" in run(code)


def test_two_threads_get_an_error_or_a_result() -> None:
    env = VectorEnv("pong", 2, num_threads=2)
    env.reset(seed=1)
    results: dict[str, list[str]] = {"a": [], "b": []}

    def play(name: str) -> None:
        for _ in range(100):
            try:
                env.step(np.zeros(2, int))
                results[name].append("step")
            except (error.AlreadyPendingCallError, error.NoAsyncCallError) as e:
                results[name].append(type(e).__name__)

    threads = [threading.Thread(target=play, args=(name,), daemon=True) for name in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive()
    assert [len(r) for r in results.values()] == [100, 100]
    assert {"step", "AlreadyPendingCallError"} <= {*results["a"], *results["b"]}
    env.reset(seed=1)
    env.step(np.zeros(2, int))
    env.close()


def test_close_ends_the_wait_of_another_thread() -> None:
    env = VectorEnv("pong", 1, frameskip=1024, num_threads=1)
    env.reset(seed=1)
    errors: list[BaseException] = []

    def play() -> None:
        try:
            while True:
                env.step(np.zeros(1, int))
        except error.ClosedEnvironmentError as e:
            errors.append(e)

    thread = threading.Thread(target=play, daemon=True)
    thread.start()
    time.sleep(0.3)
    env.close()
    thread.join(LIMIT_S)
    assert not thread.is_alive() and len(errors) == 1


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs signals")
@pytest.mark.parametrize(("n", "call"), [(16, "env.send(actions); env.recv()"), slow(48, "env.step(actions)")])
def test_ctrl_c_ends_a_wait_and_the_result_can_still_be_received(n: int, call: str) -> None:
    """Ctrl-C ends a call of recv() or step() long before the environment's step has ended, and recv() still returns its
    result."""
    code = f"""
env = VectorEnv("pong", {n}, frameskip=1024, num_threads=1)
twin = VectorEnv("pong", {n}, frameskip=1024, num_threads=1)
env.reset(seed=1), twin.reset(seed=1)
actions = np.zeros({n}, int)
signal.signal(signal.SIGALRM, signal.default_int_handler)
start = time.monotonic()
signal.setitimer(signal.ITIMER_REAL, 0.02)
try:
    {call}
except KeyboardInterrupt:
    interrupted = time.monotonic()
    obs = env.recv()[0]
    print("interrupted", interrupted - start < time.monotonic() - interrupted)
    assert np.array_equal(obs, twin.step(actions)[0])
    assert np.array_equal(env.step(actions)[0], twin.step(actions)[0])
"""
    assert run(code) == "interrupted True\n"


@pytest.mark.parametrize("end", ["", "sys.exit(0)", "del env"])
def test_a_process_with_a_pending_send_ends(end: str) -> None:
    run(LONG + "env.send(np.zeros(1, int))\n" + end)


def test_threads_are_driven_in_every_way() -> None:
    """Run drive_threads.py without a sanitizer. .ci/sanitize runs this program under ThreadSanitizer."""
    program = Path(__file__).with_name("drive_threads.py")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0 and "threads: clean" in done.stdout, done.stderr
