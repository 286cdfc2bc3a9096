"""A worker process: it pins itself to a core and steps its environments of every group, in turn.

Started as `python -m accel_rl.samplers.workers.worker FD`, a fresh interpreter that imports neither torch nor the
program that started it, so a worker is up in a fraction of a second and a user's script needs no
`if __name__ == "__main__"`.
"""

import os
import signal
import socket
import sys
import time
import traceback
from typing import Any

from accel_rl.data.rollout_arrays import RolloutArrays
from accel_rl.data.shared_memory import SharedArrays
from accel_rl.samplers.workers.channel import WorkerSide
from accel_rl.samplers.workers.control import Control, Disconnected
from accel_rl.samplers.workers.event_fd import EventFd
from accel_rl.samplers.workers.stepper import BUFFERS, GroupStepper
from accel_rl.system.errors import RunError
from accel_rl.system.process import die_with_parent


def run(control: Control) -> None:
    setup, _ = control.receive()
    die_with_parent(setup["parent_pid"])
    sys.path[:] = setup["sys_path"]  # a user's module:factory is found here as it is there
    if setup["core"] is not None:
        from accel_rl.system.hardware import pin

        pin([setup["core"]])
    if setup["nice"]:
        os.nice(setup["nice"])
    steppers = _build(setup)
    memory = SharedArrays.attach(setup["counters_layout"], setup["counters_fd"])
    bell, server = EventFd(tuple(setup["bell"])), EventFd(tuple(setup["server_bell"]))
    channel = WorkerSide(memory.arrays, setup["worker"], bell, server, control, setup["spins"])
    for stepper in steppers.values() if setup["start"] else ():
        stepper.start()
    control.send({"ready": True, "pid": os.getpid()})
    env_ns = memory["env_ns"][setup["worker"]]
    clock = time.perf_counter_ns
    alone = next(iter(steppers)) if len(steppers) == 1 else None  # then nobody else's turn is passed over
    wire = () if alone is None else channel.wire(alone, env_ns.ctypes.data)
    while True:
        if alone is not None:
            steppers[alone].go_on(wire)
        asked = channel.next()
        if asked is None:
            if not _converse(control, list(steppers.values())):
                return
            continue
        group, slot = asked
        begin = clock()
        steppers[group].do(slot)
        env_ns[0] += clock() - begin
        channel.post(group)


def _build(setup: dict[str, Any]) -> dict[int, GroupStepper]:
    """By group."""
    from accel_rl.envs.make import EnvConfig, make_batch

    memory = SharedArrays.attach(setup["rollout_layout"], setup["rollout_fd"])
    buffers = [RolloutArrays.of(memory.arrays, setup["stack"], prefix=f"{i}/") for i in range(BUFFERS)]
    config = EnvConfig(**setup["env"])
    steppers = {}
    for group, (start, stop), seeds in zip(setup["groups"], setup["slices"], setup["seeds"], strict=True):
        env = make_batch(config, seeds, setup["training"], setup["reset"], setup["decorrelation_steps"])
        steppers[group] = GroupStepper(env, buffers, slice(start, stop))
    return steppers


def _converse(control: Control, steppers: list[GroupStepper]) -> bool:
    """Answer one rare message; False to leave."""
    message, blob = control.receive()
    kind = message["kind"]
    if kind == "get_state":
        states = [stepper.env.get_state() for stepper in steppers]
        sizes = [[len(s) for s in group] for group in states]
        control.send({"sizes": sizes}, b"".join(s for group in states for s in group))
    elif kind == "set_state":
        at = 0
        for stepper, sizes in zip(steppers, message["sizes"], strict=True):
            group_states = []
            for size in sizes:
                group_states.append(blob[at : at + size])
                at += size
            stepper.set_state(group_states)
        control.send({"ready": True})
    elif kind == "late_resets":
        control.send({"late_resets": sum(stepper.env.late_resets for stepper in steppers)})
    elif kind == "close":
        for stepper in steppers:
            stepper.env.close()
        return False
    return True


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the main process decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    control = Control(socket.socket(fileno=int(sys.argv[1])))
    try:
        run(control)
    except Disconnected:
        pass  # the main process is gone
    except Exception as e:
        try:
            control.send({"error": str(e) if isinstance(e, RunError) else traceback.format_exc()})
        except Disconnected:
            traceback.print_exc()
        sys.exit(1)


if __name__ == "__main__":
    main()
