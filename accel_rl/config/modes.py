"""The modes of a run. Each mode checks how it combines with the other settings.

A mode belongs to a package that may import this one. The mode's module is imported by name, and only if the mode is
chosen.
"""

from collections.abc import Callable
from importlib import import_module

from accel_rl.config.train import TrainConfig

Test = Callable[[TrainConfig], bool]

MODES: tuple[tuple[Test, str], ...] = (
    (lambda c: c.cluster == "gorila", "accel_rl.gorila.check_settings:check_gorila"),
    (lambda c: c.cluster == "ray", "accel_rl.gorila.check_settings:check_ray_ranks"),
    (lambda c: c.schedule == "concurrent", "accel_rl.runners.concurrent:check"),
    (lambda c: c.distributed.several, "accel_rl.runners.ranks.rank_config:check"),
    (lambda c: c.sampler.on_device, "accel_rl.samplers.device_engine:check"),
)
"""Each entry has the test of whether the mode is chosen, and the mode's check as module:function. A check is called
with `Resolved` settings."""


def check_modes(config: TrainConfig) -> None:
    """Raise ConfigError, with a message of one line, for settings that a chosen mode cannot have."""
    for is_chosen, name in MODES:
        if is_chosen(config):
            module, _, function = name.partition(":")
            getattr(import_module(module), function)(config)
