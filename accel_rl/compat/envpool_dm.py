"""EnvPool's games with the interface of dm_env, for envpool.make_dm()."""

from typing import Any

import dm_env
import numpy as np

from accel_rl.compat.envpool_pool import Pool, Results
from accel_rl.compat.envpool_spec import State, players


class DMEnvPool(Pool, dm_env.Environment):  # type: ignore[misc]
    """A batch of games whose methods return TimeSteps of arrays [batch]."""

    def observation_spec(self) -> Any:
        return self.spec.observation_spec()

    def action_spec(self) -> Any:
        return self.spec.action_spec()

    def _returned(self, results: Results, is_reset: bool) -> Any:
        info, done = results.info, results.terminated | results.truncated
        kind = np.where(
            results.begins, dm_env.StepType.FIRST, np.where(done, dm_env.StepType.LAST, dm_env.StepType.MID)
        )
        observation = State(
            info["env_id"],
            players(info["players"]["env_id"]),
            results.obs,
            *(info[name] for name in ("lives", "reward", "terminated", "ram")),
        )
        return dm_env.TimeStep(kind.astype(np.int32), results.reward, results.discount, observation)
