import signal
import subprocess
import sys
import time

from accel_rl.machine.usage import Stall, cpu_ns


def test_a_stopped_process_stalls_and_a_waiting_one_does_not():
    waiting = "import time\nprint(1, flush=True)\nwhile True: time.sleep(0.1)"
    with subprocess.Popen([sys.executable, "-c", waiting], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline()
            stall = Stall(lambda: cpu_ns(process.pid))
            for _ in range(3):
                time.sleep(0.3)
                assert stall.look() == 0.0
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.2)
            stall.look()
            time.sleep(0.3)
            assert stall.look() >= 0.3
            process.send_signal(signal.SIGCONT)
            time.sleep(0.3)
            assert stall.look() == 0.0
        finally:
            process.kill()
