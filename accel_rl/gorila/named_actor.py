"""Ray actors with names, by which the processes of a run find each other."""

import time
from typing import Any

from accel_rl.gorila.session import NAMESPACE
from accel_rl.system.errors import RunError

FREE_S = 30.0  # a dead actor's name is free within moments


def start_named(ray: Any, cls: type, name: str, *arguments: Any, **options: Any) -> Any:
    """Start an actor. Ray neither restarts it nor repeats its calls. RunError if the name stays taken.

    options: of Ray, such as num_cpus; default 0 cores.
    """
    actor = ray.remote(cls).options(
        name=name, namespace=NAMESPACE, max_restarts=0, max_task_retries=0, **{"num_cpus": 0, **options}
    )
    deadline = time.monotonic() + FREE_S
    while True:
        try:
            return actor.remote(*arguments)
        except ValueError as e:  # the name of a dead actor is not free yet
            if time.monotonic() > deadline:
                raise RunError(f"{name} cannot start: {e}") from e
            time.sleep(0.05)
