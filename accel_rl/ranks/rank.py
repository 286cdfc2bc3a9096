"""This module is the main program of a rank's process, which `local_ranks.start_rank` starts."""

import json
import os
import sys
import traceback
import warnings
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from accel_rl.processes import child
from accel_rl.processes.process import before_torch, die_with_parent
from accel_rl.text.errors import ConfigError, RunError, end_process, reported, show_warning
from accel_rl.training.signals import StopRequest


def run(setup: dict[str, Any]) -> dict[str, Any]:
    """Run a rank to its end, and return its result."""
    return _run_on_network(setup) if setup.get("by_environment") else _run_on_this_machine(setup)


def _run_on_this_machine(setup: dict[str, Any]) -> dict[str, Any]:
    """Run a rank that has inherited the memory that the ranks share."""
    from accel_rl.distributed.process_group import file_store
    from accel_rl.planning.plan import RankPlan
    from accel_rl.ranks import async_context, sync_context
    from accel_rl.ranks.shared_counters import SharedCounters
    from accel_rl.run.run_folder import RunFolder
    from accel_rl.settings.resolved import Resolved

    config, plan = Resolved.from_dict(setup["config"]), RankPlan.from_dict(setup["plan"])
    folder, env_steps = RunFolder(Path(setup["run"])).of_rank(plan.rank), setup["env_steps"]
    if config.distributed.is_async:
        counters = SharedCounters.attach(plan.size, config.log.window, setup["counters"])
        return async_context.train(config, plan, folder, env_steps, counters, setup["memory"]).to_dict()
    # Ranks of one machine use the loopback interface, so that no port is open to other machines.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    store = file_store(setup["memory"], plan.size)
    return sync_context.train(config, plan, folder, env_steps, store, plan.size, partial(_fail, setup)).to_dict()


def _run_on_network(setup: dict[str, Any]) -> dict[str, Any]:
    """Run a rank that finds the other ranks by the environment variables of torchrun."""
    from accel_rl.ranks import torchrun
    from accel_rl.settings.resolved import Resolved

    info, config = torchrun.rank_info(), Resolved.from_dict(setup["config"])
    assert info is not None, "RANK is not set"
    _, _, result = torchrun.train(
        info, config, info.plan(config), Path(setup["run"]), listening=setup["listening"], end=partial(_fail, setup)
    )
    return {} if result is None else result.to_dict()


def main() -> None:
    setup = json.loads(sys.argv[1])
    die_with_parent(setup["parent_pid"])
    before_torch()
    if setup["rank"]:
        warnings.simplefilter("ignore")  # Only rank 0 prints warnings.
    else:
        warnings.showwarning = show_warning
    # Ctrl-C reaches both the rank's process and the parent process, and requests a stop of the rank.
    with StopRequest():
        child.accept_signals()
        _reply(setup)


def _reply(setup: dict[str, Any]) -> None:
    code = 0
    try:
        reply = run(setup)
    except KeyboardInterrupt:
        code, reply = 130, {}
    except (ConfigError, RunError) as e:
        _fail(setup, e)
    except BaseException as e:
        if not (line := reported(e)):
            traceback.print_exc()
        code, reply = 1, {"error": line or " ".join(f"{type(e).__name__}: {e}".split())}
    _end(setup, code, reply)


def _fail(setup: dict[str, Any], error: ConfigError | RunError) -> NoReturn:
    """Report the error of a rank's run, and end the process."""
    kind = type(error).__name__
    _end(setup, 2 if kind == "ConfigError" else 1, {"error": " ".join(str(error).split()), "kind": kind})


def _end(setup: dict[str, Any], code: int, reply: dict[str, Any]) -> NoReturn:
    os.write(setup["reply_fd"], json.dumps(reply).encode())
    sys.stdout.flush()
    sys.stderr.flush()
    end_process(code)  # After a rank was lost, threads of torch's process group may never end.


if __name__ == "__main__":
    main()
