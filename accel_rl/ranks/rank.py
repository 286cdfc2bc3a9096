"""This module is the main program of a rank's process, which `local_ranks.start_rank` starts."""

import json
import os
import platform
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
    """Run a rank to its end, and return its result. The ranks of one machine inherit a file: synchronous ranks connect
    through this file, and asynchronous ranks share their central parameters in it. Ranks of several machines connect
    through the environment variables of torchrun."""
    from accel_rl.distributed.process_group import choose_interface, environment_store, file_store
    from accel_rl.planning.plan import RankPlan
    from accel_rl.planning.rank_config import rank_config
    from accel_rl.ranks import async_context, sync_context
    from accel_rl.ranks.shared_counters import SharedCounters
    from accel_rl.run.run_folder import RunFolder
    from accel_rl.settings.resolved import Resolved

    rank, size, run = setup["rank"], setup["size"], RunFolder(Path(setup["run"]))
    if not (run.path / "config.json").exists():
        raise ConfigError(f"{run.path} is not on {platform.node()}: all nodes must share the run folder's file system")
    config = rank_config(Resolved.from_dict(setup["config"]), rank, setup["local_rank"], setup["local_size"])
    plan = RankPlan.from_dict(setup["plan"]) if "plan" in setup else RankPlan.resolve(config, rank, size)
    common = config, plan, run.of_rank(rank), setup["env_steps"]
    if config.distributed.is_async:
        counters = SharedCounters(size, config.window, setup["counters"])
        return async_context.train(*common, counters, setup["memory"]).to_dict()
    if "memory" in setup:  # Ranks of one machine use the loopback interface: no port is open to other machines.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        store = file_store(setup["memory"], size)
    else:
        choose_interface(os.environ["MASTER_ADDR"], one_machine=setup["local_size"] == size)
        store = environment_store(setup["listening"])
    return sync_context.train(*common, store, setup["ranks_on_gpus"], partial(_fail, setup)).to_dict()


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
    end_process(code)  # Don't wait for threads of torch's process group: after a rank was lost, they may never end.


if __name__ == "__main__":
    main()
