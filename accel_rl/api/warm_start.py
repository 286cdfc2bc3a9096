"""The network of another run or model, with which a new run begins (--init)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accel_rl.api.suite_models import run_path
from accel_rl.api.trained_agent import read_agent
from accel_rl.checkpoints import checkpoint
from accel_rl.checkpoints.model_folder import ModelFolder
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.config_file import read_file
from accel_rl.settings.resolved import Resolved
from accel_rl.text.errors import ConfigError
from accel_rl.training.initial_network import InitialNetwork
from accel_rl.training.learner import build_algorithm
from accel_rl.training.seeds import own_generator


def initial_network(config: Resolved) -> InitialNetwork | None:
    """The network of --init, compared layer by layer with the network of a rank. Return None without --init. Raises
    ConfigError, with a message of one line, if no layer has the same shape."""
    if not config.init:
        return None
    try:
        path = run_path(config.init)
        state = _state(path)
    except ConfigError as e:
        raise ConfigError(f"--init {e}") from e
    with own_generator("cpu", seed=0):
        model = build_algorithm(config, config.spec, "cpu").agent.model
    source = f"{config.init} ({_about(path)}{state['env_steps']:,} env steps)"
    return InitialNetwork.of(source, state["learner"]["network"], model, config.init_only)


def _state(path: Path) -> Mapping[str, Any]:
    """The part of a checkpoint that contains the network, from the folder of a run, a model or a checkpoint."""
    if (path / "MANIFEST.json").exists():
        return checkpoint.load(path)
    if not ModelFolder(path).is_there:
        read_file(path)
    state = read_agent(RunFolder(path))
    if state is None:
        raise ConfigError(f"{path} has no checkpoint yet")
    return state


def _about(path: Path) -> str:
    """The algorithm, the environment and the network of a run or a model, if the folder has its settings. A user's
    class that the settings name is not imported."""
    try:
        values = read_file(path)
    except ConfigError:
        return ""
    env, algo = (x if isinstance(x, dict) else {} for x in (values.get("env"), values.get("algo")))
    name = env.get("game") or env.get("id")
    network = f"--network {algo['network']}, " if env.get("game") and "network" in algo else ""
    return f"{values.get('algorithm')} on {name}, {network}" if name else ""
