"""The mode of a run determines which processes train the run. Only `TrainConfig.mode` chooses the mode."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mode:
    """Which processes train a run: the process that began it, ranks, or the members of Gorila."""

    module: str = ""
    """Module with the function `launch(plan, run, state, objects)`, which starts the other processes and trains
    to the end of the run. In a mode over Ray, the module also has the function `check(config)`. The module is imported
    only if its mode is chosen."""
    check: str = ""
    """Function `module:name` that checks the settings for this mode, without Ray and independently of the machine."""
    has_members: bool = False
    """Whether the run has members (bundles, actors, learners) and a sharded parameter server, instead of ranks."""
    over_ray: bool = False

    @property
    def is_alone(self) -> bool:
        return not self.module

    @property
    def has_ranks(self) -> bool:
        return bool(self.module) and not self.has_members


ALONE = Mode()
RANKS = Mode("accel_rl.ranks.local_ranks")
CLUSTERS = {
    "gorila": Mode(
        "accel_rl.gorila.driver", "accel_rl.gorila.check_settings:check_gorila", has_members=True, over_ray=True
    ),
    "ray": Mode("accel_rl.gorila.ray_ranks", "accel_rl.gorila.check_settings:check_ray_ranks", over_ray=True),
}
"""Maps each value of --cluster except `none` to its mode."""
