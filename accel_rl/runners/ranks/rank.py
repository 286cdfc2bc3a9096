"""The process of one rank, as `rank_process.launch` starts it."""

import json
import os
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

from accel_rl.runners.signals import StopRequest
from accel_rl.system.errors import ConfigError, RunError, show_warning
from accel_rl.system.process import before_torch, die_with_parent


def run(setup: dict[str, Any]) -> dict[str, Any]:
    """Run one rank; returns its result as plain JSON."""
    if "listening" in setup:
        return _run_on_network(setup)
    from accel_rl.checkpoints.checkpoint import Checkpoints, load
    from accel_rl.config.resolved import Resolved
    from accel_rl.distributed.process_group import file_store
    from accel_rl.runners.plan import RankPlan
    from accel_rl.runners.ranks.sync_context import join_ranks
    from accel_rl.runners.ranks.sync_launcher import folder_of
    from accel_rl.runners.run_folder import RunFolder
    from accel_rl.runners.trainer import Trainer

    config, plan, rank = Resolved.from_dict(setup["config"]), RankPlan.from_dict(setup["plan"]), setup["rank"]
    folder = folder_of(RunFolder(Path(setup["run"])), rank)
    if config.distributed.is_async:
        from accel_rl.runners.ranks.async_context import AsyncContext

        context = AsyncContext.inherit(setup, config)
        state = context.state(Checkpoints(folder.path / "checkpoints"))
        return Trainer(config, plan, folder, state, context).run().to_dict()
    state = None
    if setup["env_steps"] is not None:
        state = load(Checkpoints(folder.path / "checkpoints").path(setup["env_steps"]))
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # one machine: nothing listens outside it
    size = setup["size"]
    store = file_store(setup["store"], size)
    with join_ranks(config, plan.device, store, rank, size, size, setup["gradients"]) as sync:
        return Trainer(config, plan, folder, state, sync).run().to_dict()


def _run_on_network(setup: dict[str, Any]) -> dict[str, Any]:
    """Run a rank that finds the others by the environment variables of torchrun."""
    from accel_rl.config.resolved import Resolved
    from accel_rl.runners.ranks import torchrun

    info, config = torchrun.rank_info(), Resolved.from_dict(setup["config"])
    assert info is not None, "RANK is not set"
    _, _, result = torchrun.train(info, config, info.plan(config), Path(setup["run"]), setup["listening"])
    return {} if result is None else result.to_dict()


def main() -> None:
    setup = json.loads(sys.argv[1])
    die_with_parent(setup["parent_pid"])
    before_torch()
    if setup["rank"]:
        warnings.simplefilter("ignore")  # rank 0 shows it
    else:
        warnings.showwarning = show_warning
    with StopRequest():  # Ctrl-C reaches this process as well as the launcher, which also asks it to stop
        _reply(setup)


def _reply(setup: dict[str, Any]) -> None:
    code = 0
    try:
        reply = run(setup)
    except KeyboardInterrupt:
        code, reply = 130, {}
    except (ConfigError, RunError) as e:
        kind = type(e).__name__
        code, reply = (2 if kind == "ConfigError" else 1), {"error": " ".join(str(e).split()), "kind": kind}
    except BaseException as e:
        traceback.print_exc()
        code, reply = 1, {"error": " ".join(f"{type(e).__name__}: {e}".split())}
    os.write(setup["reply_fd"], json.dumps(reply).encode())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads of a process group that lost a member may never end


if __name__ == "__main__":
    main()
