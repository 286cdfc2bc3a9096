import errno
import mmap
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from accel_rl.distributed.central import Central, chunks
from accel_rl.distributed.gradient_sync import Local
from accel_rl.distributed.guarded_step import GuardedStep
from accel_rl.distributed.locked_chunk import LockedChunks
from accel_rl.distributed.multi_step_adam import MultiStepAdam
from accel_rl.optim.flat import FlatParameters
from accel_rl.optim.optimizer import ALIGNMENT
from accel_rl.optim.optimizers import AdaGrad, Adam, RMSProp
from accel_rl.text.errors import RunError
from tests.distributed.push_chunks import central_of, exchange_of
from tests.marks import slow

RULES = {
    "adagrad": lambda n: AdaGrad(n, epsilon=1e-6),
    "adam": lambda n: Adam(n, epsilon=1e-5),
    "rmsprop": lambda n: RMSProp(n, 0.99, 1e-5, epsilon_inside=True),
    "rmsprop-torch": lambda n: RMSProp(n, 0.99, 1e-5, epsilon_inside=False),
    "rmsprop-centered": lambda n: RMSProp(n, 0.99, 1e-5, epsilon_inside=True, centered=True),
}


def model():
    torch.manual_seed(0)
    return torch.nn.Linear(999, 1)


@pytest.fixture
def fd():
    fd = os.memfd_create("test")
    yield fd
    os.close(fd)


def connected(gradient_sync, fd, create=True):
    gradient_sync.connect(Central(gradient_sync.parts, gradient_sync.states(), fd, create=create), publish=create)
    return gradient_sync


def learn(gradient_sync, updates=20, seed=1):
    g = torch.Generator().manual_seed(seed)
    for _ in range(updates):
        gradient_sync.pull()
        gradient_sync.flat.grad.copy_(torch.randn(len(gradient_sync.flat.grad), generator=g))
        gradient_sync.step(1e-2, torch.zeros(()))
    return gradient_sync.flat.data.clone()


def test_chunks_are_disjoint_whole_and_aligned():
    for size in (1, 63, 64, 65, 1_000, 1_001, 900_000):
        for k in (1, 2, 3, 8):
            parts = chunks(size, k)
            assert [i for p in parts for i in (p.start, p.stop)][1:-1:2] == [p.start for p in parts[1:]]
            assert parts[0].start == 0 and parts[-1].stop == size and 1 <= len(parts) <= k
            assert all(p.start % ALIGNMENT == 0 and p.stop > p.start for p in parts)


@pytest.mark.parametrize("k", [1, 3, 5])
@pytest.mark.parametrize("name", RULES)
def test_one_rank_equals_single_mode_bit_for_bit(fd, name, k):
    alone = FlatParameters(model())
    expected = learn(Local(GuardedStep(alone, RULES[name](len(alone.data)), 0.5)))
    got = learn(connected(LockedChunks(FlatParameters(model()), RULES[name], 0.5, k), fd))
    assert torch.equal(got, expected)


@pytest.mark.parametrize("name", RULES)
def test_ranks_take_turns_as_one_would(fd, name):
    """Two ranks that push alternately compute the same parameters as a single rank, because the optimizer state is
    central."""
    a = connected(LockedChunks(FlatParameters(model()), RULES[name], None, 3), fd)
    b = connected(LockedChunks(FlatParameters(model()), RULES[name], None, 3), fd, create=False)
    alone = FlatParameters(model())
    single = Local(GuardedStep(alone, RULES[name](len(alone.data)), None))
    for i in range(10):
        learn((a, b)[i % 2], 1, seed=i)
        learn(single, 1, seed=i)
    a.pull_now()
    assert torch.equal(a.flat.data, alone.data)
    state, again = a.state_dict(), LockedChunks(FlatParameters(model()), RULES[name], None, 3)
    again.load_state_dict(state)
    assert torch.equal(again.flat.data, alone.data)
    for optimizer, part in zip(again.optimizers, again.parts, strict=True):
        assert torch.equal(optimizer.square, single.guarded.optimizer.square[part])
        assert getattr(optimizer, "steps", 10) == 10


def test_others_wait_until_the_rule_has_seen_what_is_not_late(fd):
    first = connected(LockedChunks(FlatParameters(model()), RULES["rmsprop"], None, 3), fd)
    other = connected(LockedChunks(FlatParameters(model()), RULES["rmsprop"], None, 3, rank=1), fd, create=False)
    first.warmup_updates = other.warmup_updates = 4
    alone = FlatParameters(model())
    single = Local(GuardedStep(alone, RULES["rmsprop"](len(alone.data)), None))
    for i in range(4):
        learn(other, 1, seed=9)
        assert torch.equal(other.flat.data, first.flat.data)
        learn(first, 1, seed=i)
        learn(single, 1, seed=i)
    assert torch.equal(first.flat.data, alone.data)
    learn(other, 1, seed=4)
    learn(single, 1, seed=4)
    first.pull_now()
    assert torch.equal(first.flat.data, alone.data)


def test_the_lead_counts_updates_not_pushes(fd):
    """With warmup_updates = 10, the pushes of rank 1 are dropped until rank 0 has pushed 12 updates, 4 per push."""
    first = connected(MultiStepAdam(FlatParameters(model()), RULES["adam"], None, 3, 0, 4), fd)
    other = connected(MultiStepAdam(FlatParameters(model()), RULES["adam"], None, 3, 1, 4), fd, create=False)
    first.warmup_updates = other.warmup_updates = 10

    def is_dropped():
        other.pull_now()
        before = other.flat.data.clone()
        learn(other, 1, seed=9)
        return torch.equal(other.flat.data, before)

    for updates in range(12):
        assert is_dropped(), updates
        learn(first, 1, seed=updates)
    assert not is_dropped()


def test_what_is_not_finite_never_becomes_central(fd):
    gradient_sync = connected(LockedChunks(FlatParameters(model()), RULES["adam"], 0.5, 3), fd)
    before = gradient_sync.flat.data.clone()
    gradient_sync.flat.grad.fill_(float("nan"))
    gradient_sync.step(1e-2, torch.zeros(()))
    gradient_sync.pull()
    assert gradient_sync.skips.total == 1 and torch.equal(gradient_sync.flat.data, before)
    assert {gradient_sync.central.version(k) for k in range(3)} == {1}


def test_a_lock_that_a_living_owner_keeps_is_named(fd):
    gradient_sync = connected(LockedChunks(FlatParameters(model()), RULES["adam"], None, 3), fd)
    with gradient_sync.central.held(1, 1.0), pytest.raises(RunError, match="chunk 1"):
        began = time.monotonic()
        gradient_sync.central.locks.acquire(1, 0.2)
    assert time.monotonic() - began < 1


def appendix_a(theta, grads, n, lr, beta_1=0.9, beta_2=0.999, epsilon=1e-5):
    """Multi-step Adam of one learner in float64 (Stooke & Abbeel 2018, appendix A): n local updates, of
    which each is accumulated, and one push of the sums.

    The step with Adam's epsilon is a / (1 - beta_1^t) m / (sqrt(v / (1 - beta_2^t)) + epsilon).
    """
    m, v = torch.zeros_like(theta), torch.zeros_like(theta)
    central = [theta.clone(), m.clone(), v.clone()]
    a_g, a_g2, a_s = (torch.zeros_like(theta) for _ in range(3))
    t = 0
    for i, g in enumerate(grads, 1):
        t = t + 1
        m = beta_1 * m + (1 - beta_1) * g
        v = beta_2 * v + (1 - beta_2) * g**2
        s = lr / (1 - beta_1**t) * m / ((v / (1 - beta_2**t)) ** 0.5 + epsilon)
        theta = theta - s
        a_g = beta_1 * a_g + g
        a_g2 = beta_2 * a_g2 + g**2
        a_s = a_s + s
        if i % n == 0:
            central[0] = theta = central[0] - a_s
            central[1] = m = beta_1**n * central[1] + (1 - beta_1) * a_g
            central[2] = v = beta_2**n * central[2] + (1 - beta_2) * a_g2
            a_g, a_g2, a_s = (torch.zeros_like(theta) for _ in range(3))
    return central


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_multi_step_adam_equals_the_papers_formulas(fd, n):
    gradient_sync = connected(MultiStepAdam(FlatParameters(model()), RULES["adam"], None, 3, 0, n), fd)
    start, updates = gradient_sync.flat.data.double(), 12 * 4
    g = torch.Generator().manual_seed(1)
    grads = [torch.randn(1_000, generator=g).double() for _ in range(updates)]
    theta, m, v = appendix_a(start, grads, n, 1e-2)
    learn(gradient_sync, updates)
    got = [gradient_sync.central.read(k) for k in range(3)]
    for expected, found in (
        (theta, [p for p, _ in got]),
        (m, [s["mean"] for _, s in got]),
        (v, [s["square"] for _, s in got]),
    ):
        torch.testing.assert_close(torch.cat(found).double(), expected, atol=2e-6, rtol=1e-4)
    assert {s["steps"] for _, s in got} == {updates}


def test_local_steps_are_pushed_before_anybody_acts_or_saves(fd):
    gradient_sync = connected(MultiStepAdam(FlatParameters(model()), RULES["adam"], None, 3, 0, 4), fd)
    learn(gradient_sync, 6)
    assert {gradient_sync.central.read(k)[1]["steps"] for k in range(3)} == {4}
    gradient_sync.flush()
    assert {gradient_sync.central.read(k)[1]["steps"] for k in range(3)} == {6}
    learn(gradient_sync, 1)
    assert gradient_sync.state_dict()["optimizer"]["steps"] == [7, 7, 7]


# -- killed ranks ------------------------------------------------------------

PARAMETERS, CHUNKS = 300_000, 3


class Ranks:
    """Four ranks of push_chunks.py in separate processes, which a test kills and replaces."""

    def __init__(self, fd, local_updates):
        self._progress_fd = os.memfd_create("progress")
        os.ftruncate(self._progress_fd, 4096)
        self.progress = np.frombuffer(mmap.mmap(self._progress_fd, 4096), np.int64)
        arguments = (fd, self._progress_fd, PARAMETERS, CHUNKS, local_updates)
        self._starter = subprocess.Popen(
            [sys.executable, "-m", "tests.distributed.push_chunks", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(fd, self._progress_fd),
            text=True,
        )
        self.pids = [0] * 4
        for r in range(4):
            self.start(r, create=r == 0)

    def start(self, rank, create=False):
        before = self.progress[rank]
        print(rank, int(create), file=self._starter.stdin, flush=True)
        self.pids[rank] = int(self._starter.stdout.readline())
        self.until(lambda: self.progress[rank] > before)

    def until(self, condition, timeout_s=30.0):
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, self.progress[:4]
            time.sleep(0.001)

    def close(self):
        self._starter.kill()
        self._starter.communicate()
        os.close(self._progress_fd)


def had_by_next(central, k, version):
    """Wait until the lock of chunk k, whose owner may have been killed, has been held by this process or a living rank.

    Returns whether this process was the first to find that the owner of the lock is dead.
    """
    deadline = time.monotonic() + 5.0
    while True:
        code = central.locks._libc.pthread_mutex_trylock(central.locks._addresses[k])
        if central.locks._taken(k, code):
            central.locks.release(k)
            return code == errno.EOWNERDEAD
        if central.version(k) > version:
            return False
        assert time.monotonic() < deadline, f"nobody has had the lock of chunk {k} within 5 s"
        time.sleep(0.0005)


def survive(fd, kills, local_updates, seed=0):
    """Kill and replace ranks at random moments.

    After each kill, every lock must become free within a second, every chunk must be complete, and the other ranks must
    continue.
    """
    random.seed(seed)
    ranks = Ranks(fd, local_updates)
    held = slowest = 0
    try:
        central = central_of(exchange_of(PARAMETERS, CHUNKS), fd, create=False)
        for _ in range(kills):
            time.sleep(random.uniform(0.0, 0.05))
            victim = random.randrange(4)
            os.kill(ranks.pids[victim], signal.SIGKILL)
            before = [central.version(k) for k in range(CHUNKS)]
            for k in range(CHUNKS):
                began = time.monotonic()
                held += had_by_next(central, k, before[k])
                slowest = max(slowest, time.monotonic() - began)
                assert central.verify(k, 30.0) >= before[k]
            others = [r for r in range(4) if r != victim]
            at = ranks.progress[others].copy()
            ranks.until(lambda others=others, at=at: (ranks.progress[others] > at).all())
            ranks.start(victim)
        return held, slowest, [central.verify(k) for k in range(CHUNKS)]
    finally:
        ranks.close()


@pytest.mark.parametrize("local_updates", [1, slow(2)])
def test_killed_ranks_leave_whole_chunks_and_free_locks(fd, local_updates):
    _, slowest, versions = survive(fd, 10, local_updates)
    assert min(versions) > 10 and slowest < 1.0
