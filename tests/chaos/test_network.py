"""Simulated hosts on one machine, joined by a router."""

import subprocess
import sys
import time

import pytest

from tests.chaos.network import can_make_networks, network


@pytest.mark.skipif(bool(can_make_networks()), reason=can_make_networks() or "there are networks")
def test_the_router_delays_loses_and_cuts():
    with network(2) as net:
        answer = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('10.78.0.2', 9)); "
        answer += "\nwhile True: data, sender = s.recvfrom(99); s.sendto(data, sender)"
        ask = "import socket, sys, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.5)\n"
        ask += "began = time.monotonic(); s.sendto(b'x', ('10.78.0.2', 9)); s.recv(9); print(time.monotonic() - began)"
        host = subprocess.Popen([*net.inside(1), sys.executable, "-c", answer])

        def asked():
            return subprocess.run([*net.inside(0), sys.executable, "-c", ask], capture_output=True, text=True)

        try:
            deadline = time.monotonic() + 20
            while asked().returncode and time.monotonic() < deadline:
                pass
            net.delay_s = 0.1
            assert float(asked().stdout) >= 0.2
            net.delay_s, net.cut = 0.0, {1}
            assert "TimeoutError" in asked().stderr
            net.cut, net.loss = set(), 1.0
            assert "TimeoutError" in asked().stderr
            net.loss = 0.0
            assert asked().returncode == 0
        finally:
            host.kill()
            host.wait()
