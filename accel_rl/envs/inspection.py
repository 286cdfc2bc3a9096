"""A separate process creates a user's environment and returns the environment's spec, because the user's code may block
or crash.

The process has two command-line arguments: a file descriptor, to which it writes its reply as JSON, and the
environment's settings.
"""

import contextlib
import json
import os
import signal
import sys
import traceback
import warnings
from functools import cache
from typing import Any

from accel_rl.data.spec import EnvSpec
from accel_rl.envs.gymnasium import GymnasiumEnv, registered
from accel_rl.envs.vectorized import VectorizedEnv, is_vectorized
from accel_rl.processes import child
from accel_rl.processes.process import die_with_parent
from accel_rl.text.errors import ConfigError, show_warning


def is_of_user(id: str) -> bool:
    """Return whether an id is of an environment outside of Gymnasium, whose code may block or crash."""
    entry = registered(id)
    return ":" in id or (entry is not None and not str(entry.entry_point).startswith("gymnasium."))


@cache
def inspected(id: str, kwargs: str, stack: int, timeout_s: float, mask_in_info: bool = False) -> EnvSpec:
    """Return the spec of an environment, which is created in another process. Raises ConfigError if it cannot be
    created within `timeout_s` seconds."""
    asked = {"id": id, "kwargs": kwargs, "stack": stack, "mask_in_info": mask_in_info, "parent_pid": os.getpid()}
    question = json.dumps(asked)
    reply, code = child.reply_of("accel_rl.envs.inspection", question, timeout_s)
    if reply:
        values: dict[str, Any] = json.loads(reply)
        if "error" in values:
            raise ConfigError(values["error"])
        return EnvSpec.from_dict(values)
    if code is None:
        raise ConfigError(f"id={id!r} was not made within --sampler.start-timeout-s {timeout_s:g}")
    if code < 0:
        name = signal.Signals(-code).name
        raise ConfigError(f"id={id!r}: the process in which the environment was made was killed by {name}")
    raise ConfigError(f"id={id!r}: the process in which the environment was made exited with code {code}")


def main(fd: int, question: str) -> None:
    for s in child.STOP_SIGNALS:  # Only the parent process reacts to Ctrl-C.
        signal.signal(s, lambda *_: None)
    child.accept_signals()
    warnings.showwarning = show_warning
    asked = json.loads(question)
    die_with_parent(asked["parent_pid"])
    env: GymnasiumEnv | VectorizedEnv | None = None
    try:
        id, stack, kwargs = asked["id"], asked["stack"], json.loads(asked["kwargs"] or "{}")
        if is_vectorized(id):
            env = VectorizedEnv(id, 1, 0, stack, kwargs, mask_in_info=asked["mask_in_info"])
        else:
            env = GymnasiumEnv(id, 0, stack, kwargs=kwargs, mask_in_info=asked["mask_in_info"])
        reply = env.spec.to_dict()
    except ConfigError as e:
        reply = {"error": str(e)}
    except Exception as e:
        frame = traceback.extract_tb(e.__traceback__)[-1]
        why = f"{type(e).__name__}: {' '.join(str(e).split())} ({frame.filename}, line {frame.lineno})"
        reply = {"error": f"id={asked['id']!r}: {why}"}
    os.write(fd, (json.dumps(reply) + "\n").encode())
    # The parent kills this process soon after the reply, because the environment may block.
    with contextlib.suppress(Exception):
        if env is not None:
            env.report_faults()
            env.close()
    os._exit(0)  # os._exit does not wait for threads that the environment has started.


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
