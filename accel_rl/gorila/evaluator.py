"""The evaluator of a cluster run: plays episodes in a process of its own, while the members go on."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from accel_rl.envs.make import make_spec
from accel_rl.gorila.deaths import Deaths
from accel_rl.gorila.named_actor import start_named
from accel_rl.gorila.ray_shards import transport_to
from accel_rl.gorila.reader import Reader
from accel_rl.gorila.session import load_ray
from accel_rl.gorila.setup import Setup
from accel_rl.models.precision import multiply_in
from accel_rl.runners.evaluation import Evaluation
from accel_rl.runners.evaluator import Evaluator
from accel_rl.runners.learner import Learner
from accel_rl.runners.plan import RankPlan
from accel_rl.runners.seeds import Stream, derived_seed
from accel_rl.system.errors import RunError
from accel_rl.system.process import tune_torch


class EvaluatorActor:
    """What runs in the evaluator's process."""

    def __init__(self, setup: Setup):
        ray, self.config = load_ray(), replace(setup.enter(), device="cpu")
        plan = RankPlan.resolve(self.config)
        tune_torch(plan.placement.torch_threads)
        multiply_in("float32", plan.device)
        reader = Reader("evaluator", self.config.gorila)
        seed = derived_seed(self.config.seed, Stream.MODEL)  # frozen parameters are those of all processes
        self._learner = Learner(self.config, make_spec(self.config.env, training=True), plan.device, seed, reader)
        self._sync = reader.sync
        self._sync.connect(transport_to(ray, setup.shards), publish=False)
        self._evaluator = Evaluator(self.config, plan)

    def evaluate(self, steps: int, seed: int) -> tuple[dict[str, Any], Any]:
        """Pull the parameters and play an evaluation; returns it, as `Evaluation.to_dict`, and the parameters [P]."""
        self._sync.pull_now()
        agent = self._learner.algo.agent.evaluating(self.config.evaluation.greedy)
        evaluation = self._evaluator.evaluate(agent, steps=steps, seed=seed)
        assert evaluation is not None
        return evaluation.to_dict(), self._learner.flat.data.numpy().copy()


class Evaluated(NamedTuple):
    """An evaluation, the env steps at which it was asked for, and the parameters [P] that were evaluated."""

    env_steps: int
    evaluation: Evaluation
    parameters: Tensor


class RemoteEvaluator:
    """The driver's side: one evaluation at a time. One whose process dies is played again, by another process."""

    def __init__(self, ray: Any, setup: Setup, seed: int, event: Callable[[str], None]):
        """seed: of the run. event: notes an unusual event."""
        self._ray, self._setup, self._seed, self._event = ray, setup, seed, event
        self._actor: Any = None
        self._asked: tuple[int, int] | None = None  # (env_steps, steps)
        self._call: Any = None  # that plays it; None: it begins at _starts_at
        self._starts_at = 0.0  # time.monotonic()
        self._deaths = Deaths()
        self.replaced = 0

    @property
    def busy(self) -> bool:
        return self._asked is not None

    def begin(self, env_steps: int, steps: int) -> None:
        """Ask for an evaluation of `steps` env steps. env_steps: of the run."""
        assert not self.busy
        self._asked = env_steps, steps
        self._deaths.worked()
        self._start()

    def _start(self) -> None:
        assert self._asked is not None
        env_steps, steps = self._asked
        if self._actor is None:
            name = f"{self._setup.name}/evaluator-{self.replaced}"
            self._actor = start_named(self._ray, EvaluatorActor, name, self._setup)
        self._call = self._actor.evaluate.remote(steps, derived_seed(self._seed, Stream.EVALUATION, env_steps))

    def look(self, wait_s: float = 0.0) -> Evaluated | None:
        """Return the evaluation that was asked for, once it is there. RunError if its process dies again and again."""
        if self._asked is None:
            return None
        if self._call is None:
            if time.monotonic() < self._starts_at:
                time.sleep(wait_s)
                return None
            self._start()
        if not self._ray.wait([self._call], timeout=wait_s)[0]:
            return None
        try:
            found, parameters = self._ray.get(self._call)
        except self._ray.exceptions.RayTaskError as e:
            raise RunError(f"evaluation: {getattr(e, 'cause', None) or e}") from e
        except self._ray.exceptions.RayActorError as e:
            self._lost(e)
            return None
        (env_steps, _), self._asked, self._call = self._asked, None, None
        evaluation = Evaluation(tuple(found["scores"]), tuple(found["lengths"]), found["protocol"])
        return Evaluated(env_steps, evaluation, torch.from_numpy(parameters.copy()))

    def _lost(self, error: Exception) -> None:
        self._actor, self._call, self.replaced = None, None, self.replaced + 1
        pause = self._deaths.died()
        if pause is None:
            line = str(error).splitlines()[0]
            raise RunError(f"the evaluator died {self._deaths.in_a_row} times in one evaluation: {line}") from error
        self._starts_at = time.monotonic() + pause
        self._event("the evaluator died: the evaluation is played again")

    def close(self) -> None:
        if self._actor is not None:
            self._ray.kill(self._actor)
