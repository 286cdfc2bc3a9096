"""The sampler continues if worker processes are killed or suspended, or if their code fails."""

import gc
import os
import signal
import threading
import time

import numpy as np
import psutil
import pytest
import torch

from accel_rl.agents.agent import RandomAgent
from accel_rl.envs.make import make_spec
from accel_rl.samplers.workers import pool
from accel_rl.text import output
from accel_rl.text.errors import RunError
from tests.env_settings import env_of
from tests.marks import slow
from tests.samplers.conftest import make_agent, make_sampler

ENV = env_of(game="pong")


def test_a_killed_worker_is_replaced_and_its_part_marked(warned):
    sampler, agent = make_sampler(ENV, 8, 2, 2), make_agent(ENV)
    try:
        sampler.collect(agent)
        victim = sampler.engine.pids()[1]
        os.kill(victim, signal.SIGKILL)
        r = sampler.collect(agent)
        assert (
            f"worker 1 (pid {victim}) was killed by SIGKILL" in warned[0] and str(sampler.engine.pids()[1]) in warned[0]
        )
        lost = [2, 3, 6, 7]  # Worker 1 plays the second half of each group of 4 environments.
        assert not r.valid[:, lost].any() and r.valid[:, [0, 1, 4, 5]].all()
        assert np.isfinite(r.reward.numpy()).all() and (r.action >= 0).all()
        deadline = time.monotonic() + 30
        while not r.valid.all():
            assert time.monotonic() < deadline
            r = sampler.collect(agent)
        assert (r.age[0, lost] < 3).any() or r.valid.all()  # fresh episodes
        assert len(warned) == 1
    finally:
        sampler.close()


def test_a_killed_worker_is_noticed_within_a_second(warned):
    """At least one of three kills must be noticed within a second. Other programs on the machine may delay the test."""
    took = []
    sampler, agent = make_sampler(ENV, 8, 2, 2), make_agent(ENV)
    try:
        for i in range(3):
            while not sampler.collect(agent).valid.all():
                pass
            os.kill(sampler.engine.pids()[1], signal.SIGKILL)
            began = time.monotonic()
            sampler.collect(agent)
            took.append(time.monotonic() - began)
            assert len(warned) == i + 1
            if took[-1] < 1.0:
                return
        raise AssertionError(took)
    finally:
        sampler.close()


@pytest.mark.parametrize("threaded", [False, slow(True)])
def test_a_worker_killed_in_the_middle_of_a_rollout(threaded, warned):
    sampler = make_sampler(ENV, 8, 2, 2, T=40, threaded_inference=threaded)
    agent = make_agent(ENV)
    act, acted, lost = agent.act, 0, [0, 1, 2, 3] if threaded else [0, 1, 4, 5]

    def act_and_kill(*args):
        nonlocal acted
        acted += 1
        if acted == 20:
            os.kill(sampler.engine.pids()[0], signal.SIGKILL)
        return act(*args)

    agent.act = act_and_kill
    try:
        sampler.start()
        r = sampler.collect(agent)
        assert len(warned) == 1
        assert not r.valid[:, lost].any() and r.valid[:, [b for b in range(8) if b not in lost]].all()
        deadline = time.monotonic() + 30
        while not sampler.collect(agent).valid.all():
            assert time.monotonic() < deadline
    finally:
        sampler.close()


@pytest.mark.parametrize("ahead", [False, slow(True)])
def test_an_agent_that_fails_in_a_thread_ends_the_rollout(ahead):
    sampler, agent = make_sampler(ENV, 8, 2, 2, T=40, threaded_inference=True), make_agent(ENV)
    act = agent.act

    def fail_for_one(obs, uniform, memory, b):
        if b.start == 4 and uniform[0] > 0.9:
            raise ZeroDivisionError("no such action")
        return act(obs, uniform, memory, b)

    agent.act = fail_for_one
    try:
        began = time.monotonic()
        with pytest.raises(ZeroDivisionError, match="no such action"):
            for _ in sampler.rollouts(agent, fixed=ahead):
                pass
        agent.act = act
        sampler.collect(agent)
        assert time.monotonic() - began < 10
    finally:
        sampler.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("group-")]


@pytest.mark.parametrize("threaded", [slow(False), True])
def test_a_worker_killed_while_the_next_rollout_is_begun(threaded, warned):
    """The environments of the killed worker are invalid in both rollouts. Other environments are unchanged."""
    agent = make_agent(ENV) if threaded else RandomAgent(make_spec(ENV, training=True).n_actions)
    sampler, calm = make_sampler(ENV, 8, 2, 2, threaded_inference=threaded), make_sampler(ENV, 8, 2, 0)
    lost, kept, missing = [0, 1, 4, 5], [2, 3, 6, 7], 0
    if threaded:
        lost, kept = [0, 1, 2, 3], [4, 5, 6, 7]
    try:
        stream, others = sampler.rollouts(agent, fixed=True), calm.rollouts(agent, fixed=True)
        r, want = next(stream), next(others)
        os.kill(sampler.engine.pids()[0], signal.SIGKILL)
        deadline = time.monotonic() + 30
        while missing == 0 or not r.valid.all():
            assert time.monotonic() < deadline
            r, want = next(stream), next(others)
            for name in ("frames", "age", "action", "reward", "ended"):
                assert (getattr(r, name)[:, kept] == getattr(want, name)[:, kept]).all()
            assert r.valid[:, kept].all() and r.valid[:, lost].all() == r.valid[:, lost].any()
            missing += int(not r.valid.all())
        assert len(warned) == 1 and missing >= 1
        assert next(stream).valid.all()
    finally:
        sampler.close()
        calm.close()


def test_all_workers_killed_at_once(warned):
    sampler, agent = make_sampler(ENV, 4, 1, 2), make_agent(ENV)
    try:
        sampler.collect(agent)
        for pid in sampler.engine.pids():
            os.kill(pid, signal.SIGKILL)
        sampler.collect(agent)
        deadline = time.monotonic() + 30
        while not sampler.collect(agent).valid.all():
            assert time.monotonic() < deadline
        assert len(warned) == 2
    finally:
        sampler.close()


def test_strict_names_the_worker_and_the_signal():
    sampler, agent = make_sampler(ENV, 4, 2, 2, strict=True), make_agent(ENV)
    try:
        sampler.collect(agent)
        pid = sampler.engine.pids()[0]
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(RunError, match=rf"worker 0 \(pid {pid}\) was killed by SIGKILL"):
            sampler.collect(agent)
    finally:
        sampler.close()


def test_a_hung_worker_is_replaced(warned):
    sampler, agent = make_sampler(ENV, 4, 1, 2, timeout_s=0.5), make_agent(ENV)
    try:
        sampler.collect(agent)
        os.kill(sampler.engine.pids()[1], signal.SIGSTOP)
        r = sampler.collect(agent)
        assert not r.valid[:, 2:].any() and r.valid[:, :2].all()
        assert "no answer from worker 1 within 0.5 s" in warned[0]
    finally:
        sampler.close()


@pytest.mark.slow
def test_a_worker_that_hangs_while_it_starts_is_replaced(warned, monkeypatch):
    """Worker 1's first process hangs at its start. Later, a process that replaces a killed process hangs at its start.

    The test shortens the time limits for the starts of both processes.
    """
    launch, stopped = pool.WorkerProcess.launch, []

    def launch_stopped(w, *args):
        worker = launch(w, *args)
        if w == 1:
            os.kill(worker.pid, signal.SIGSTOP)
            worker.waited_s = 119.5
            stopped.append(worker.pid)
            monkeypatch.setattr(pool.WorkerProcess, "launch", launch)
        return worker

    def until_whole():
        deadline = time.monotonic() + 60
        while not sampler.collect(agent).valid.all():
            assert time.monotonic() < deadline

    monkeypatch.setattr(pool.WorkerProcess, "launch", launch_stopped)
    sampler, agent = make_sampler(ENV, 4, 1, 2), make_agent(ENV)
    try:
        until_whole()
        monkeypatch.setattr(pool.WorkerProcess, "launch", launch_stopped)
        os.kill(sampler.engine.pids()[1], signal.SIGKILL)
        until_whole()
        for pid in stopped:
            line = f"worker 1 (pid {pid}) was killed after --sampler.start-timeout-s 120"
            assert any(line in other for other in warned)
        assert len(warned) == 3
    finally:
        sampler.close()


def test_a_worker_that_never_starts_ends_the_run_in_a_line():
    env = env_of(id="tests.environments:blocks_at_reset")
    sampler = make_sampler(env, 1, 1, 1, start_timeout_s=0.4)
    line = r"was killed after --sampler.start-timeout-s 0.4 before it was ready, 3 times in a row: it steps tests"
    try:
        with pytest.raises(RunError, match=line):
            sampler.start()
    finally:
        sampler.close()


@pytest.mark.slow
def test_a_hung_worker_is_given_up_on_while_another_gets_on():
    """One worker answers for 2 s, in 20 steps of 0.1 s, which must not extend the time limit of a suspended worker."""
    env, seen = env_of(id="tests.environments:slow"), []
    sampler = make_sampler(env, 2, 1, 2, T=20, timeout_s=0.5)
    try:
        sampler.start()
        begin = time.monotonic()
        os.kill(sampler.engine.pids()[1], signal.SIGSTOP)
        with output.written(seen.append, lambda line: seen.append((time.monotonic(), line))):
            r = sampler.collect(RandomAgent(sampler.spec.n_actions))
        assert time.monotonic() - begin >= 2 and r.valid[:, 0].all() and not r.valid[:, 1].any()
        noticed, line = seen[0]
        assert noticed - begin < 1.8 and "no answer from worker 1 within 0.5 s" in line
    finally:
        sampler.close()


@pytest.mark.slow
@pytest.mark.parametrize("fault", [signal.SIGKILL, None, signal.SIGSTOP])
def test_a_rollout_whose_actions_are_all_chosen_outlasts_the_timeout_but_not_a_fault(fault, warned):
    """A worker that still makes steps may take longer than the timeout of 0.5 s for a rollout, here 10 steps of 0.1
    s."""
    env = env_of(id="tests.environments:slow")
    sampler = make_sampler(env, 2, 1, 2, T=10, timeout_s=0.5)
    agent = RandomAgent(sampler.spec.n_actions)
    try:
        sampler.start()
        if fault:
            threading.Timer(0.3, os.kill, (sampler.engine.pids()[1], fault)).start()
        r = sampler.collect(agent)
        assert r.valid[:, 0].all() and r.valid[:, 1].all() == (fault is None) and bool(warned) == bool(fault)
        if fault:
            assert not r.valid[:, 1].any() and (r.action[:, 1] == 0).all()
            until = time.monotonic() + 60
            while not sampler.collect(agent).valid.all():
                assert time.monotonic() < until
    finally:
        sampler.close()


def test_workers_outlive_the_thread_that_started_them(warned):
    sampler, agent = make_sampler(ENV, 2, 1, 1), make_agent(ENV)
    try:
        thread = threading.Thread(target=sampler.start)
        thread.start()
        thread.join()
        time.sleep(0.2)
        assert sampler.collect(agent).valid.all() and not warned
    finally:
        sampler.close()


@pytest.mark.parametrize("fault", ["killed", slow("hangs")])
def test_a_worker_lost_while_a_checkpoint_is_written_is_replaced(fault, warned):
    sampler, agent = make_sampler(ENV, 8, 2, 2, timeout_s=2.0), make_agent(ENV)
    other = make_sampler(ENV, 8, 2, 0)
    try:
        sampler.collect(agent)
        victim = sampler.engine.pids()[1]
        os.kill(victim, signal.SIGSTOP)
        if fault == "killed":
            threading.Timer(0.3, os.kill, (victim, signal.SIGKILL)).start()
        state = sampler.state_dict()
        assert len(warned) == 1 and f"worker 1 (pid {victim}) was killed by SIGKILL" in warned[0]
        other.load_state_dict(state)
        for _ in range(3):  # The saved state contains the new environments' first observations.
            a, b = sampler.collect(agent), other.collect(agent)
            assert a.valid.all() and b.valid.all()
            assert all(
                torch.equal(getattr(a, name), getattr(b, name)) for name in ("frames", "action", "reward", "age")
            )
        np.testing.assert_equal(sampler.episodes.state_dict(), other.episodes.state_dict())
    finally:
        sampler.close()
        other.close()


def test_a_worker_lost_while_a_checkpoint_is_read_is_replaced(warned, monkeypatch):
    sampler, other, agent = make_sampler(ENV, 8, 2, 0), make_sampler(ENV, 8, 2, 2), make_agent(ENV)
    killed = []
    tell_state = other.engine._tell_state

    def kill_first(w, states):
        if w == 1 and not killed:
            killed.append(other.engine.pids()[1])
            os.kill(killed[0], signal.SIGKILL)
            psutil.Process(killed[0]).wait(5) if psutil.pid_exists(killed[0]) else None
        tell_state(w, states)

    monkeypatch.setattr(other.engine, "_tell_state", kill_first)
    try:
        sampler.collect(agent)
        other.load_state_dict(sampler.state_dict())
        assert len(warned) == 1 and f"worker 1 (pid {killed[0]})" in warned[0]
        a, b = sampler.collect(agent), other.collect(agent)
        assert b.valid.all() and torch.equal(a.frames, b.frames) and torch.equal(a.reward, b.reward)
    finally:
        sampler.close()
        other.close()


def test_nothing_is_left_behind():
    me = psutil.Process()
    gc.collect()  # what earlier tests left
    before = me.num_fds(), set(os.listdir("/dev/shm"))
    for _ in range(2):
        sampler, agent = make_sampler(ENV, 4, 2, 2), make_agent(ENV)
        sampler.collect(agent)
        os.kill(sampler.engine.pids()[0], signal.SIGKILL)
        sampler.collect(agent)
        pids = sampler.engine.pids()
        sampler.close()
        assert not any(psutil.pid_exists(p) for p in pids)
    del sampler  # Shared memory is freed when its last array is deleted.
    gc.collect()
    assert (me.num_fds(), set(os.listdir("/dev/shm"))) == before


def test_workers_are_pinned():
    sampler = make_sampler(ENV, 4, 2, 2)
    try:
        sampler.start()
        for pid, core in zip(sampler.engine.pids(), sampler.engine.config.cores, strict=True):
            assert psutil.Process(pid).cpu_affinity() == [core]
    finally:
        sampler.close()
