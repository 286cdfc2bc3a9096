"""The end of a torch process group, and the network interface of gloo."""

import multiprocessing
import os
import socket
import threading
import time

import pytest
import torch.distributed as dist

from accel_rl.distributed.process_group import choose_interface, file_store, part, process_group
from tests.integration.runs import run


def _threads_left(answers) -> None:
    fd = os.memfd_create("store")
    with process_group(file_store(fd, 1), 0, 1, "gloo", "cpu", 10):
        import torch.distributed._shard.sharded_tensor  # noqa: F401 - torch itself imports this module during a run

        inside = _names()
    answers.put((inside, _names()))


def _names() -> list[str]:
    tasks = os.listdir("/proc/self/task")
    return [open(f"/proc/self/task/{t}/comm").read().strip() for t in tasks]


@pytest.mark.slow
def test_no_thread_of_a_group_outlives_it():
    """No gloo thread is left after the process group: such a thread would abort the process when Python ends."""
    context = multiprocessing.get_context("spawn")
    answers = context.SimpleQueue()
    process = context.Process(target=_threads_left, args=(answers,))
    process.start()
    inside, after = answers.get()
    process.join()
    assert any("gloo" in name for name in inside) and not any("gloo" in name for name in after), after


def _store_outlives_its_descriptor() -> None:
    fd = os.memfd_create("store")
    store = file_store(fd, 1)
    store.set("key", "value")
    os.close(fd)
    with socket.socket() as taken:
        assert taken.fileno() == fd
        del store  # The destructor of torch's store reads the store's file.


def test_a_store_may_be_freed_after_its_descriptor_is_closed():
    code = "from tests.distributed.test_process_group import _store_outlives_its_descriptor as f; f(); print('alive')"
    done = run(code, module="-c", timeout_s=100)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


def test_the_rank_with_the_store_ends_last():
    store, began = dist.HashStore(), time.monotonic()
    others = [threading.Timer(after_s, part, (store, rank, 3, 30)) for rank, after_s in ((1, 0.5), (2, 0.2))]
    for other in others:
        other.start()
    part(store, 0, 3, 30)
    assert 0.5 <= time.monotonic() - began < 10


def test_a_rank_that_never_parts_is_not_waited_for_long():
    began = time.monotonic()
    part(dist.HashStore(), 0, 2, 0.5)
    assert 0.4 < time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("given", "one_machine", "expected"), [(None, True, "lo"), (None, False, None), ("eth7", True, "eth7")]
)
def test_gloo_uses_the_interface_to_the_master(monkeypatch, given, one_machine, expected):
    """Gloo uses the loopback interface only if all ranks are on one machine, unless GLOO_SOCKET_IFNAME is set."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", given or "")
    if given is None:
        monkeypatch.delenv("GLOO_SOCKET_IFNAME")
    choose_interface("127.0.0.1", one_machine)
    assert os.environ.get("GLOO_SOCKET_IFNAME") == expected


def test_an_unknown_master_leaves_the_choice_to_gloo(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "")
    monkeypatch.delenv("GLOO_SOCKET_IFNAME")
    choose_interface("no-such-host.invalid", one_machine=False)
    assert "GLOO_SOCKET_IFNAME" not in os.environ
