"""The program of a worker process: it pins itself to a core, and steps its environments, one group after another.

`accel_rl.processes.child` starts a worker as a new interpreter that imports neither torch nor the user's program. A
worker therefore starts in a fraction of a second, and a user's script needs no `if __name__ == "__main__"`.
"""

import contextlib
import os
import signal
import socket
import sys
import time
import traceback
import warnings
from functools import partial

from accel_rl.data.rollout_arrays import RolloutArrays
from accel_rl.data.shared_memory import SharedArrays
from accel_rl.envs.environment import BatchEnv
from accel_rl.processes import child
from accel_rl.processes.process import die_with_parent
from accel_rl.samplers.workers.channel import EventFd, WorkerSide
from accel_rl.samplers.workers.control import Control, Disconnected
from accel_rl.samplers.workers.messages import Reply, Request, WorkerSetup
from accel_rl.samplers.workers.stepper import GroupStepper
from accel_rl.text.errors import ConfigError, RunError, exits_raised, show_warning


def run(control: Control) -> None:
    setup, _ = control.receive()
    die_with_parent(setup.parent_pid)
    _close_in_forks(control, setup)
    if setup.core is not None:
        from accel_rl.machine.hardware import pin

        pin([setup.core])
    if setup.nice:
        os.nice(setup.nice)
    steppers = _build(setup)
    memory = SharedArrays.attach(setup.counters_layout, setup.counters_fd)
    event, server = EventFd(tuple(setup.event)), EventFd(tuple(setup.server_event))
    channel = WorkerSide(memory.arrays, setup.worker, event, server, control, setup.spins)
    for stepper in steppers.values() if setup.start else ():
        stepper.start()
    control.send(Reply(is_ready=True))
    env_ns = memory["env_ns"][setup.worker]
    clock = time.perf_counter_ns
    while True:
        asked = channel.next()
        if asked is None:
            if not _reply(control, list(steppers.values()), setup):
                return
            continue
        group, step_index = asked
        begin = clock()
        steppers[group].do(step_index)
        env_ns[0] += clock() - begin
        channel.answer(group)


def _close_in_forks(control: Control, setup: WorkerSetup) -> None:
    """Close the worker's file descriptors in processes that an environment forks. If a forked process kept them open,
    the main process would not notice the worker's death, and the memory of the rollouts would not be freed."""
    fds = {control.fileno(), setup.rollout_fd, setup.counters_fd, *setup.event, *setup.server_event}

    def close() -> None:
        for fd in fds:
            with contextlib.suppress(OSError):
                os.close(fd)

    os.register_at_fork(after_in_child=close)


def _build(setup: WorkerSetup) -> dict[int, GroupStepper]:
    memory = SharedArrays.attach(setup.rollout_layout, setup.rollout_fd)
    buffers = [RolloutArrays.of(memory.arrays, setup.stack, prefix=f"{i}/") for i in range(setup.buffers)]
    steppers = {}
    for group, (start, stop), seeds in zip(setup.groups, setup.slices, setup.seeds, strict=True):
        steppers[group] = GroupStepper(_batch(setup, start, seeds), buffers, slice(start, stop))
    return steppers


def _batch(setup: WorkerSetup, first: int, seeds: list[int]) -> BatchEnv:
    """Create a group's environments. `first` is the index, in the sampler, of the group's first environment."""
    from accel_rl.envs.make import ResolvedEnv, make_batch
    from accel_rl.envs.starts import StartOrder

    starts = StartOrder(setup.starts_file, first, setup.environments) if setup.starts_file else None
    return make_batch(
        ResolvedEnv(**setup.env),
        seeds,
        setup.training,
        setup.reset,
        setup.decorrelation_steps,
        starts,
        setup.first_index + first,
    )


def _reply(control: Control, steppers: list[GroupStepper], setup: WorkerSetup) -> bool:
    """Answer a request of the main process. Return false if the request asks the worker to end."""
    request, blob = control.receive()
    assert isinstance(request, Request)
    if request.kind == "get_state":
        states = [stepper.get_state() for stepper in steppers]
        sizes = tuple(tuple(len(s) for s in group) for group in states)
        control.send(Reply(sizes=sizes), b"".join(s for group in states for s in group))
    elif request.kind == "set_state":
        begin = 0
        for stepper, group_sizes in zip(steppers, request.sizes, strict=True):
            group_states = []
            for size in group_sizes:
                group_states.append(blob[begin : begin + size])
                begin += size
            stepper.set_state(group_states)
        control.send(Reply(is_ready=True))
    elif request.kind == "late_resets":
        control.send(Reply(late_resets=sum(stepper.env.late_resets for stepper in steppers)))
    elif request.kind == "reseed":
        for stepper, (first, _), seeds in zip(steppers, setup.slices, request.seeds, strict=True):
            stepper.replace(partial(_batch, setup, first, list(seeds)))
        control.send(Reply(is_ready=True))
    elif request.kind == "close":
        for stepper in steppers:
            stepper.env.close()
        return False
    return True


def main() -> None:
    # Ctrl-C and a batch system's SIGTERM are sent to the whole process group, but only the main process must react.
    # The handler is an empty function instead of SIG_IGN, which an environment's child processes would inherit.
    for s in child.STOP_SIGNALS:
        signal.signal(s, lambda *_: None)
    child.accept_signals()
    warnings.showwarning = show_warning
    control = Control(socket.socket(fileno=int(sys.argv[1])))
    try:
        with exits_raised():
            run(control)
    except Disconnected:
        pass  # Disconnected means that the main process has ended.
    except (Exception, KeyboardInterrupt) as e:  # An environment may raise KeyboardInterrupt.
        try:
            control.send(_failure(e))
        except Disconnected:
            traceback.print_exc()
        sys.exit(1)


def _failure(error: BaseException) -> Reply:
    if isinstance(error, (ConfigError, RunError)):
        return Reply(error=str(error), traceback="".join(getattr(error, "__notes__", [])))
    return Reply(error=" ".join(f"{type(error).__name__}: {error}".split()), traceback=traceback.format_exc())


if __name__ == "__main__":
    main()
