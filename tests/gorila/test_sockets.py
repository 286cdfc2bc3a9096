"""Shards that are called through sockets, in this process."""

import math
import socket
import threading

import pytest
import torch

from accel_rl.gorila.shard import Pulled, Push, Shard, ShardCounts, Snapshot, Version
from accel_rl.gorila.sockets import Endpoint, ShardServer, SocketTransport, receive, send
from accel_rl.gorila.transport import ShardUnavailable
from accel_rl.optim.optimizers import AdaGrad
from tests.gorila.made_up import OPTIMIZERS, connected, learn, local_of, sync_of

WAIT_S = 20.0
HOST = "127.0.0.1"


class Served:
    """Servers of shards, by name, which a test may end and replace."""

    def __init__(self, shards):
        self.servers = {str(i): ShardServer(shard, HOST) for i, shard in enumerate(shards)}
        self.transport = SocketTransport(list(self.servers), self.locate)

    def locate(self, name):
        return self.servers[name].endpoint if name in self.servers else None

    def close(self):
        self.transport.close()
        for server in self.servers.values():
            server.close()


@pytest.fixture
def serve():
    started = []

    def serve(shards):
        started.append(Served(shards))
        return started[-1]

    yield serve
    for served in started:
        served.close()


def shard_of(n=10):
    return Shard(torch.arange(float(n)), AdaGrad(n), max_delay=3)


def sent(message):
    a, b = socket.socketpair()
    with a, b:
        sending = threading.Thread(target=send, args=(a, message))
        sending.start()
        received = receive(b)
        sending.join()
    return received


def same(a, b):
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if hasattr(a, "__dataclass_fields__"):
        return type(a) is type(b) and all(same(getattr(a, n), getattr(b, n)) for n in a.__dataclass_fields__)
    return a == b and type(a) is type(b)


@pytest.mark.parametrize("n", [0, 3, 300_000])
def test_messages_arrive_as_they_were(n):
    version = Version(2**62 - 1, 5, 5)
    state = {"square": torch.rand(n), "steps": torch.tensor(7), "sizes": {1: 0.1, "b": None}, "on": True}
    for message in (
        Push("a", 1, version, 0.1 + 0.2, torch.randn(n)),
        Push("a", 1, version, math.inf, torch.full((n,), math.nan)[:0]),
        Pulled(version, torch.randn(n)),
        Pulled(version, None),
        Snapshot(torch.randn(n), state, 3, {"a": 1}, ShardCounts(accepted=2)),
        version,
        "accepted",
        0,
    ):
        assert same(message, sent(message))
    a, b = socket.socketpair()
    with a, b, pytest.raises(TypeError, match="a set cannot be sent"):
        send(a, {1})


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_one_learner_equals_local_training_bit_for_bit(serve, optimizer):
    sync = sync_of(optimizer=optimizer, max_norm=0.5, shards=3)
    connected(sync, serve(sync.build_shards()).transport)
    assert torch.equal(learn(sync, range(10)), learn(local_of(optimizer, 0.5), range(10)))
    state = sync.state_dict()
    again = sync_of(optimizer=optimizer, max_norm=0.5, shards=3)
    again.load_state_dict(state)
    again.connect(serve(again.build_shards()).transport, publish=True)
    assert torch.equal(learn(again, range(10, 15)), learn(local_of(optimizer, 0.5), range(15)))


def test_calls_are_carried_out_in_their_order(serve):
    shard = shard_of()
    transport = serve([shard]).transport
    version = transport.call(0, "pull", None).result(WAIT_S).version
    calls = [transport.call(0, "push", Push("a", i, version, 0.1, torch.ones(10))) for i in range(1, 6)]
    pulled = transport.call(0, "pull", version)
    assert [c.result(WAIT_S) for c in calls] == ["accepted"] * 4 + ["stale"]  # max_delay 3
    assert pulled.result(WAIT_S).version == Version(version.epoch, 4, 4) and shard.join("a") == 5


def test_errors_of_a_shard_are_its_own_and_the_connection_goes_on(serve):
    transport = serve([shard_of()]).transport
    with pytest.raises(ValueError, match="10 parameters"):
        transport.call(0, "push", Push("a", 1, Version(0, 0, 0), 0.1, torch.ones(3))).result(WAIT_S)
    with pytest.raises(ValueError, match="no method 'close'"):
        transport.call(0, "close").result(WAIT_S)
    assert transport.call(0, "join", "a").result(WAIT_S) == 0


def test_a_call_without_the_token_is_refused(serve):
    served = serve([shard_of()])
    right = served.servers["0"].endpoint
    wrong = SocketTransport(["0"], lambda _: Endpoint(right.host, right.port, "0" * 64))
    with pytest.raises(ShardUnavailable, match="0 is gone"):
        wrong.call(0, "join", "a").result(WAIT_S)
    wrong.close()
    assert served.transport.call(0, "join", "a").result(WAIT_S) == 0


class Hangs(Shard):
    """A shard that answers no `join` until it is told to."""

    def __init__(self):
        super().__init__(torch.zeros(4), AdaGrad(4), 1)
        self.go_on = threading.Event()

    def join(self, learner):
        self.go_on.wait()
        return super().join(learner)


def test_a_shard_that_hangs_is_named(serve):
    shard = Hangs()
    call = serve([shard]).transport.call(0, "join", "a")
    with pytest.raises(ShardUnavailable, match=r"^0 has not answered within 0.1 s$"):
        call.result(0.1)
    assert not call.done()
    shard.go_on.set()
    assert call.result(WAIT_S) == 0 and call.done()


def test_a_lost_call_is_not_repeated_and_the_next_finds_the_new_server(serve):
    served = serve([shard_of()])
    transport = served.transport
    assert transport.call(0, "join", "a").result(WAIT_S) == 0
    del served.servers["0"]
    transport._shards[0]._socket.shutdown(socket.SHUT_RDWR)  # as if the other side were gone
    push = Push("a", 1, Version(0, 0, 0), 0.1, torch.ones(10))
    for _ in range(2):  # lost with the connection; no server
        with pytest.raises(ShardUnavailable, match="0 is gone"):
            transport.call(0, "push", push).result(WAIT_S)
    new = shard_of()
    served.servers["0"] = ShardServer(new, HOST)
    assert transport.call(0, "join", "a").result(WAIT_S) == 0 and new.counts == ShardCounts()
    assert transport.call(0, "push", push).result(WAIT_S) == "stale"
