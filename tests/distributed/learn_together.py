"""Synchronous ranks that learn from fixed data, each from the rollouts of its own environments.

    python -m tests.distributed.learn_together FOLDER

Each group of GROUPS learns with one algorithm after another, with one process per rank. A process writes its results to
FOLDER/GROUP-RANK.pt. In the group of four ranks, the gradient of the widest layer is sent before the other gradients.
"""

import functools
import multiprocessing
import sys
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist

from accel_rl.algos.algorithm import advance
from accel_rl.data.rollout import Rollout
from accel_rl.distributed import all_reduce
from accel_rl.distributed.all_reduce import digest
from accel_rl.ranks.sync_context import join_ranks, sync_context
from accel_rl.settings.train import default_config
from accel_rl.training.context import SINGLE_RANK
from accel_rl.training.learner import Learner
from tests.algos.made_up import act_over
from tests.replays.made_up import Simulators, spec

T, B, UPDATES, PARTS = 5, 8, 10, 4
GROUPS = {"one": (1, False), "two over gloo": (2, False), "four over gloo": (4, False), "two shared": (2, True)}
"""Maps the name of a group to its number of ranks, and to whether the ranks exchange gradients by shared memory."""
ALGORITHMS = ("a2c", "ppo", "dqn", "c51", "rainbow")
FIELDS = ("frames", "final_frames", "age", "action", "reward", "terminated", "truncated", "ended", "valid")


@functools.cache
def rollouts(invalid):
    """Return 20 rollouts of B environments with vector observations. With `invalid`, a fifth of the cells (t, b) are
    invalid."""
    simulators, g = Simulators(B, T, seed=1, stack=1), torch.Generator().manual_seed(2)
    found = [simulators.rollout() for _ in range(20)]
    if invalid:
        for r in found:
            r.valid &= torch.rand(T, B, generator=g) > 0.2
    return found


def part(r, rank, size):
    """Return the part of the rollout `r` with the environments of rank `rank` of `size` ranks."""
    b = slice(rank * B // size, (rank + 1) * B // size)
    return Rollout(**{name: getattr(r, name)[:, b].clone() for name in FIELDS}, stack=r.stack)


def learner_of(name, group):
    config = default_config(name)
    algo = {"a2c": {"normalize_rewards": True}, "ppo": {"minibatch": T * B, "epochs": 5}}.get(name, {"batch_size": 32})
    if hasattr(config.algo, "replay"):
        algo["replay"] = replace(config.algo.replay, size=1_000 // group.exchange.communicator.size, start=0)
    sampler = replace(config.sampler, envs=B // group.exchange.communicator.size, horizon=T)
    config = replace(config, algo=replace(config.algo, learning_rate=1e-3, **algo), sampler=sampler)
    return Learner(config, spec(stack=1), "cpu", 0, group.exchange)


def from_rollouts(learner, group):
    algo, c = learner.algo, learner.algo.config
    n = UPDATES if c.max_grad_norm and not hasattr(c, "epochs") else UPDATES // 5
    for r in rollouts(invalid=True)[:n]:
        mine = part(r, group.rank, group.exchange.communicator.size)
        act_over(algo, mine)
        advance(algo, mine)
        algo.ingest(mine)
        learner.learn()


def from_replay(learner, group):
    """Update on batches with an equal number of cells (t, b) from each quarter of the environments.

    The ranks of a group together learn from the same cells as a single rank.
    """
    algo, g, each = learner.algo, torch.Generator().manual_seed(3), B // PARTS
    algo.begin()
    for r in rollouts(invalid=False):
        mine = part(r, group.rank, group.exchange.communicator.size)
        advance(algo, mine)
        algo.store(mine)
    for i in range(UPDATES):
        t = torch.randint(0, 20 * T - 10, (PARTS, 32 // PARTS), generator=g)
        b = torch.arange(PARTS)[:, None] * each + torch.randint(0, each, t.shape, generator=g)
        weight = 0.5 + torch.rand(t.shape, generator=g)
        size = group.exchange.communicator.size
        mine = slice(group.rank * PARTS // size, (group.rank + 1) * PARTS // size)
        own = B // size
        cells = t[mine] * own + b[mine] - group.rank * own
        batch = algo.replay.ring.batch(cells.flatten())
        batch.weight = weight[mine].flatten()
        learner.update(batch)
        learner.updates += 1
        if i % 5 == 4:
            algo.target_network.update()


def priorities(learner):
    """Return the importance weights of a batch from a prioritized replay, and the numbers in the replay that determine
    the weights."""
    replay = learner.algo.replay
    # The appended steps get the highest priority of all ranks' replays.
    replay.append(part(rollouts(invalid=False)[0], 0, B // learner.algo.B))
    batch = replay.sample(16)
    tree = replay.selection.tree
    share = tree[replay.ring.position_of(batch.cell)].double() / tree.total
    return {
        "weight": batch.weight,
        "share": share,
        "beta": torch.tensor(replay.selection.beta),
        "highest": replay.selection.highest,
    }


def learn(of_algorithm):
    """Return the results of all algorithms. The function of_algorithm(name) returns the context of this rank for an
    algorithm."""
    found = {}
    for name in ALGORITHMS:
        group = of_algorithm(name)
        learner = learner_of(name, group)
        (from_rollouts if name in ("a2c", "ppo") else from_replay)(learner, group)
        assert learner.updates == UPDATES and not learner.gradient_sync.skips.total, (name, learner.updates)
        found[name], found[f"{name}/hash"] = learner.flat.data, digest(learner.flat.data)
        found[f"{name}/rate"] = learner.columns()["learning_rate"]
        found[f"{name}/rewards"] = getattr(learner.algo.reward_norm, "variance", None)
        found[f"{name}/ahead"] = getattr(getattr(learner.gradient_sync, "mean", None), "_ahead", None)
    return {**found, "priorities": priorities(learner)}


def learn_as(group, rank, folder):

    size, is_shared = GROUPS[group]
    out = folder / f"{group}-{rank}.pt"
    if size == 1:
        torch.save(learn(lambda name: SINGLE_RANK), out)
        return
    if size == 4:
        all_reduce.WIDE = 1
    config = default_config("a2c")
    config = replace(config, distributed=replace(config.distributed, hash_interval=5, timeout_s=60.0))
    store = dist.FileStore(str(folder / f"{group}-store"), size)

    def context_of(name):
        context = sync_context(dist.PrefixStore(name, store), 60.0, 5)
        if not is_shared:
            context.exchange.shared = None
        return context

    with join_ranks(config, "cpu", store, rank, size, size):
        torch.save(learn(context_of), out)


def main() -> int:
    """Fork a process for each rank, so that torch is imported only once. Returns the exit code."""
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    for invalid in (False, True):
        rollouts(invalid)  # once for all forks
    for group, (size, _) in GROUPS.items():
        context = multiprocessing.get_context("fork")
        ranks = [context.Process(target=learn_as, args=(group, r, folder), daemon=True) for r in range(size)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
        if any(rank.exitcode for rank in ranks):
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
