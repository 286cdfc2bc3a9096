"""The driver starts and replaces the members and the evaluator of a cluster run, and divides the cores of each machine
among its members."""

import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from accel_rl.gorila.board import MemberCount
from accel_rl.gorila.keeper import Deaths, Keeper, pause_after, task_error
from accel_rl.gorila.member import Member
from accel_rl.gorila.ray_session import load_ray, start_named
from accel_rl.gorila.setup import Place, Reader, Role, Setup
from accel_rl.gorila.transport import ActorTransport
from accel_rl.models.precision import multiply_in
from accel_rl.planning.plan import RankPlan
from accel_rl.processes.process import tune_torch
from accel_rl.settings.resolved import Resolved
from accel_rl.text.errors import ConfigError, RunError
from accel_rl.training.evaluation import Evaluation
from accel_rl.training.evaluator import Evaluator
from accel_rl.training.learner import Learner
from accel_rl.training.seeds import Stream, derived_seed

logger = logging.getLogger(__name__)

PLACING_S = 30.0  # Members begin to train when all have started, or after `PLACING_S` seconds.


@dataclass(slots=True)
class Seat:
    """The driver's record of one member of a cluster run, and of the member's current process."""

    index: int
    role: Role
    life: int
    actor: Any = None
    placing: Any = None  # The pending Ray call that returns the `Place` of the member's process
    place: Place | None = None
    slot: int = 0
    running: Any = None  # The pending Ray call `Member.run`, which lasts until training ends
    done_at_start: int = 0  # The member's env steps plus updates when its current process began
    failed_starts: int = 0  # Number of consecutive processes of the member that made neither an env step nor an update
    # The time at which a dead member's next process starts
    starts_at: float | None = None
    ended: bool = False

    @property
    def name(self) -> str:
        return f"{self.role} {self.index}"


def _done(count: MemberCount) -> int:
    return count.work.env_steps + count.work.updates


class Members:
    """Starts all cluster members, assigns each a share of its machine's cores, and replaces dead members."""

    def __init__(
        self,
        ray: Any,
        setup: Setup,
        roles: Sequence[Role],
        counts: Sequence[MemberCount],
        resources: dict[str, float],
    ):
        """`counts` lists the counts of each member's earlier processes. `resources` are the CPUs and GPUs that Ray
        reserves for each member."""
        self._ray = ray
        self._setup = setup
        self._resources = resources
        self.seats = [Seat(i, role, counts[i].life + 1) for i, role in enumerate(roles)]
        self.replaced = 0
        self._deaths, self._done = Deaths(), 0  # Env steps plus updates of all members
        self._slots: dict[str, int] = {}  # Number of members on each machine
        for seat in self.seats:
            self._start(seat)
        self._placing_until = time.monotonic() + PLACING_S

    def _start(self, seat: Seat) -> None:
        seat.actor = start_named(
            self._ray, Member, f"{self._setup.name}/{seat.role}-{seat.index}-{seat.life}",
            self._setup, seat.index, seat.life, seat.role, scheduling_strategy="SPREAD", **self._resources,
        )  # fmt: skip
        seat.placing = seat.actor.place.remote()
        seat.place = None
        seat.running = None
        seat.starts_at = None

    @property
    def running(self) -> int:
        return sum(seat.running is not None and not seat.ended for seat in self.seats)

    @property
    def ended(self) -> bool:
        """Whether all cluster members have ended and are not replaced."""
        return all(seat.ended for seat in self.seats)

    def look(self, counts: Sequence[MemberCount], ending: bool) -> None:
        """Let members train once Ray has started their processes, and replace dead members unless the run is `ending`.
        `counts` are the counts of each member. Raises RunError, or an error that a member raised."""
        for seat in self.seats:
            if ending and seat.running is None:
                seat.ended, seat.starts_at = True, None
                self._ray.kill(seat.actor)
            if seat.starts_at is not None and time.monotonic() >= seat.starts_at:
                self._start(seat)
            if not seat.ended and seat.starts_at is None:
                self._look_at(seat, counts, ending)
        waiting = [seat for seat in self.seats if seat.running is None and not seat.ended]
        placed = [seat for seat in waiting if seat.place is not None]
        if placed and (len(placed) == len(waiting) or time.monotonic() > self._placing_until):
            self._begin(placed)

    def _look_at(self, seat: Seat, counts: Sequence[MemberCount], ending: bool) -> None:
        call = seat.placing if seat.placing is not None else seat.running
        if call is None or not self._ray.wait([call], timeout=0)[0]:
            return
        errors = self._ray.exceptions
        try:
            answer = self._ray.get(call)
        except errors.RayTaskError as e:
            raise task_error(seat.name, e) from e
        except errors.RayActorError as e:
            self._lost(seat, counts, ending, e)
            return
        if seat.placing is not None:
            seat.placing, seat.place = None, answer
        elif answer or ending:
            seat.ended = True
        else:  # The member ended because it had not heard from the driver for LOST_S seconds.
            self._ray.kill(seat.actor)
            self._lost(seat, counts, ending, RunError("no answer of the driver"), "it has not heard from the driver")

    def _begin(self, placed: list[Seat]) -> None:
        for machine in {seat.place.machine for seat in placed if seat.place}:
            on_machine = [
                seat for seat in self.seats if seat.place and seat.place.machine == machine and not seat.ended
            ]
            self._slots[machine] = max(self._slots.get(machine, 0), len(on_machine))
            taken = {seat.slot for seat in on_machine if seat.running is not None}
            free = (s for s in range(self._slots[machine] + len(on_machine)) if s not in taken)
            for seat in on_machine:
                if seat.running is None:
                    seat.slot = next(free)
                    seat.running = seat.actor.run.remote(seat.slot, max(self._slots[machine], seat.slot + 1))

    def _lost(self, seat: Seat, counts: Sequence[MemberCount], ending: bool, error: Exception, why: str = "") -> None:
        why = why or ("its node is gone" if self._node_is_gone(seat) else "its process died")
        if ending:
            seat.ended = True
            logger.warning(f"{seat.name}: {why} while the run ended")
            return
        done = sum(_done(count) for count in counts)
        if done > self._done:
            self._done = done
            self._deaths.worked()
        if self._deaths.died() is None:
            raise RunError(
                f"{seat.name}: {why}; {self._deaths.in_a_row} processes in a row died before any of them did anything: "
                f"{str(error).splitlines()[0]}"
            )
        its = _done(counts[seat.index])
        seat.failed_starts = 0 if its > seat.done_at_start else seat.failed_starts + 1
        seat.life = seat.life + 1
        seat.done_at_start = its
        seat.running = None
        seat.place = None
        seat.starts_at = time.monotonic() + pause_after(seat.failed_starts)
        self.replaced += 1
        logger.warning(f"{seat.name}: {why}; the others go on, another process takes its place")

    def _node_is_gone(self, seat: Seat) -> bool:
        alive = {node["NodeID"] for node in self._ray.nodes() if node["Alive"]}
        return seat.place is not None and seat.place.node not in alive

    def close(self) -> None:
        """End the processes of all members."""
        for seat in self.seats:
            self._ray.kill(seat.actor)


class Nodes:
    """Logs which nodes join or leave the Ray cluster."""

    def __init__(self, ray: Any):
        self._ray = ray
        self._alive = self._now()

    def __len__(self) -> int:
        return len(self._alive)

    def _now(self) -> dict[str, dict[str, float]]:
        """The resources of each living node of the cluster. A key consists of the node's host and id."""
        nodes = [node for node in self._ray.nodes() if node["Alive"]]
        return {f"{node['NodeManagerHostname']} ({node['NodeID'][:8]})": node["Resources"] for node in nodes}

    def look(self) -> None:
        """Log which nodes have joined or left the Ray cluster since the last call."""
        now = self._now()
        for node in self._alive.keys() - now:
            logger.warning(f"node {node} is gone: {len(now)} of the cluster's nodes are left")
        for node in now.keys() - self._alive:
            logger.warning(f"node {node} has joined the cluster")
        self._alive = now

    def share(self, config: Resolved) -> dict[str, float]:
        """The resources that Ray reserves for each member. Raises ConfigError if the cluster has too few cores or GPUs
        for all members."""
        g, n = config.gorila, config.gorila.members
        cpus, gpus = ([node.get(name, 0.0) for node in self._alive.values()] for name in ("CPU", "GPU"))
        wants_gpu = config.device != "cpu" and sum(gpus) > 0
        return {
            "num_cpus": share_of(cpus, n, g.bundle_cpus, "bundle-cpus", "cores"),
            "num_gpus": share_of(gpus, n, g.bundle_gpus, "bundle-gpus", "GPUs") if wants_gpu else 0.0,
        }


def fitting_share(nodes: Sequence[float], members: int) -> float:
    """Return the largest number of cores (or GPUs) per member with which all `members` members fit on the nodes: a
    whole number, or 1/k if k members must share one core (or GPU). Without any cores (or GPUs), return 0. `nodes` lists
    the number of cores (or GPUs) of each node."""
    if not (total := sum(int(n) for n in nodes)):
        return 0.0
    for share in range(int(max(nodes)), 0, -1):
        if sum(int(n // share) for n in nodes) >= members:
            return float(share)
    return 1 / math.ceil(members / total)


def share_of(nodes: Sequence[float], members: int, wanted: float, flag: str, what: str) -> float:
    """The number of cores or GPUs per member: `wanted`, or the largest possible number if `wanted` is 0. Raises
    ConfigError if the nodes have too few cores or GPUs."""
    if not wanted:
        return fitting_share(nodes, members)
    fit = sum(int(n // wanted) if wanted >= 1 else int(int(n) / wanted) for n in nodes)
    if fit < members:
        available = ", ".join(f"{n:g}" for n in nodes) or "none"
        raise ConfigError(
            f"--gorila.{flag} {wanted:g}: {members} members of {wanted:g} {what} do not fit the cluster's nodes, which "
            f"have {available}; at most {fitting_share(nodes, members):g}"
        )
    return wanted


class EvaluatorActor:
    """The Ray actor that plays a cluster run's evaluations."""

    def __init__(self, setup: Setup):
        ray, self.config = load_ray(), replace(setup.enter(), device="cpu")
        plan = RankPlan.resolve(self.config)
        tune_torch(plan.placement.torch_threads)
        multiply_in("float32", plan.device)
        reader = Reader("evaluator", self.config.gorila)
        # The same seed in all processes of the run gives the same frozen parameters.
        seed = derived_seed(self.config.seed, Stream.MODEL)
        self._learner = Learner(self.config, self.config.spec, plan.device, seed, reader)
        self._sync = reader.sync
        self._sync.connect(ActorTransport(ray, setup.shards))
        self._evaluator = Evaluator(self.config, plan)

    def evaluate(self, steps: int, seed: int) -> tuple[dict[str, Any], Any]:
        """Pull the parameters from the parameter server, and play an evaluation. Return the evaluation's result
        (`Evaluation.to_dict`) and the evaluated parameters [P]."""
        self._sync.pull_now()
        agent = self._learner.algo.agent.evaluating(self.config.evaluation.greedy)
        evaluation = self._evaluator.evaluate(agent, steps=steps, seed=seed)
        assert evaluation is not None
        return evaluation.to_dict(), self._learner.flat.data.numpy().copy()


class Evaluated(NamedTuple):
    """An evaluation, the run's number of env steps when the evaluation was requested, and the
    evaluated parameters [P]."""

    env_steps: int
    evaluation: Evaluation
    parameters: Tensor


class RemoteEvaluator(Keeper):
    """The driver's client of the evaluator's process, which plays one evaluation at a time. If the process dies, a new
    process repeats the evaluation."""

    def __init__(self, ray: Any, setup: Setup, seed: int):
        super().__init__(ray, "the evaluator", EvaluatorActor, f"{setup.name}/evaluator", setup)
        self._seed = seed
        self._asked: tuple[int, int] | None = None  # The requested evaluation, as (env_steps, steps)

    @property
    def busy(self) -> bool:
        return self._asked is not None

    def begin(self, env_steps: int, steps: int) -> None:
        """Request an evaluation that plays `steps` env steps. `env_steps` is the run's current number of env steps."""
        assert not self.busy
        self._asked = env_steps, steps
        self.deaths.worked()
        self.look()

    def look(self, wait_s: float = 0.0) -> Evaluated | None:
        """Wait at most `wait_s`, and return the requested evaluation if it is complete, and otherwise None. Raises
        RunError if the evaluator's process dies repeatedly."""
        if self._asked is None:
            return None
        env_steps, steps = self._asked
        self.ask("evaluate", steps, derived_seed(self._seed, Stream.EVALUATION, env_steps))
        if (answer := self.answer(wait_s)) is None:
            return None
        self._asked = None
        result, parameters = answer
        evaluation = Evaluation.from_dict(result)
        return Evaluated(env_steps, evaluation, torch.from_numpy(parameters.copy()))
