"""Networks for pictures are found by name."""

import re

from accel_rl.models.convolution import A3CNet, ConvNet, DQNNet, NatureNet
from accel_rl.models.residual import ImpalaNet, impala_network
from accel_rl.system.errors import ConfigError, nearest
from accel_rl.system.user_module import import_user_module

NETWORKS: dict[str, type[ConvNet]] = {"a3c": A3CNet, "dqn": DQNNet, "nature": NatureNet, "impala": ImpalaNet}
MOST_WIDTH = 16


def find_network(name: str) -> type[ConvNet]:
    """Return the class of `nature`, `impala-4` or a user's `my_module:MyNet`. Raises ConfigError for other names."""
    if name in NETWORKS:
        return NETWORKS[name]
    if (wide := re.fullmatch(r"impala-(\d+)", name)) and 1 <= int(wide[1]) <= MOST_WIDTH:
        return impala_network(int(wide[1]))
    module_name, colon, attribute = name.partition(":")
    allowed = f"{', '.join(NETWORKS)}, impala-2 to impala-{MOST_WIDTH} or module:Class"
    if not colon:
        raise ConfigError(f"--algo.network {name}: must be {allowed}{nearest(name, NETWORKS)}")
    try:
        module = import_user_module(module_name)
    except ImportError as e:
        raise ConfigError(f"--algo.network {name}: it cannot be imported ({' '.join(str(e).split())})") from e
    cls = getattr(module, attribute, None)
    if not (isinstance(cls, type) and issubclass(cls, ConvNet)):
        why = f"{module_name} has no {attribute}{nearest(attribute, dir(module))}" if cls is None else "another object"
        raise ConfigError(f"--algo.network {name}: must be a subclass of {ConvNet.__module__}.ConvNet; {why}")
    return cls
