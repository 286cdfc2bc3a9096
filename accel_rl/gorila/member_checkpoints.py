"""Checkpoints of members, which can be of a later moment than the one that their run continues from."""

import os
import shutil

from accel_rl.checkpoints.checkpoint import Checkpoints


def bring_back(checkpoints: Checkpoints, env_steps: int) -> None:
    """Make the newest checkpoint one of this moment, if it is later, and remove other later ones.

    env_steps: of the run, which may continue from an earlier checkpoint of the driver's.
    """
    later = [steps for steps in checkpoints.steps() if steps > env_steps]
    for i, steps in enumerate(reversed(later)):
        if i == 0 and not checkpoints.path(env_steps).exists():
            os.rename(checkpoints.path(steps), checkpoints.path(env_steps))
        else:
            shutil.rmtree(checkpoints.path(steps))
