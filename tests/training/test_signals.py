import os
import signal
import threading

import pytest

from accel_rl.processes.child import STOP_SIGNALS
from accel_rl.training.signals import StopRequest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_asks_for_the_end(number):
    before = [signal.getsignal(s) for s in STOP_SIGNALS]
    with StopRequest() as stop:
        assert not stop and stop.exit_code == 0
        os.kill(os.getpid(), number)
        assert stop and stop.signal == number
    assert stop.exit_code == 128 + number
    assert [signal.getsignal(s) for s in STOP_SIGNALS] == before


def test_a_second_ctrl_c_does_not_wait():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGTERM)  # Programs that forward Ctrl-C may send SIGTERM too.
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.exit_code == 143
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_one_within_another_begins_with_what_that_was_asked():
    with StopRequest() as outer:
        os.kill(os.getpid(), signal.SIGINT)
        with StopRequest() as inner:
            assert inner.exit_code == 130
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
        # The signal comes between the end of training and the end of the process.
        os.kill(os.getpid(), signal.SIGTERM)
    assert outer.exit_code == 130


def test_a_second_term_is_still_an_orderly_end():
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
    assert stop.exit_code == 143


def test_outside_the_main_thread_nothing_is_caught():
    before, inside = signal.getsignal(signal.SIGINT), []

    def use():
        with StopRequest() as stop:
            inside.append((bool(stop), signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert inside == [(False, before)] and signal.getsignal(signal.SIGINT) is before


def test_under_nohup_the_end_of_a_terminal_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
        assert not stop and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
