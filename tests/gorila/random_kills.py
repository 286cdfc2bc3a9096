"""A run on a local cluster of three nodes, whose processes and nodes are killed at random.

`python -m tests.gorila.random_kills --kills 50 --folder FOLDER`
"""

import argparse
import json
import random
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil

from accel_rl.gorila.driver import Driver
from accel_rl.run.run_folder import RunFolder
from accel_rl.settings.presets import on_gorila
from accel_rl.settings.resolved import resolve
from accel_rl.settings.train import TrainConfig, default_config
from tests.gorila.local_cluster import LocalCluster, local_cluster

TITLES = {
    "member": "ray::Member",
    "shard": "ray::ShardActor",
    "evaluator": "ray::EvaluatorActor",
    "board": "ray::Board",
    "replay": "ray::GlobalReplay",
}
SETTLE_S = 1.0


def catch(env_steps: int, seed: int = 1, **gorila: object) -> TrainConfig:
    """Catch by DQN: two bundles and two shards."""
    config = on_gorila(default_config("dqn"), is_atari=False)
    algo = replace(
        config.algo, network="a3c", optimizer="adam", optimizer_eps=1e-3, learning_rate=5e-4, epsilon_final=0.02,
        epsilon_steps=1250, target_interval=60,
        replay=replace(config.algo.replay, size=20_000, start=1_000),
    )  # fmt: skip
    return replace(
        config,
        env=replace(config.env, id="tests.catch:make"),
        algo=algo,
        sampler=replace(config.sampler, envs=8, engine="in-process"),
        evaluation=replace(config.evaluation, interval=4_000, episodes=50),
        checkpoint=replace(config.checkpoint, interval=4_000),
        torch_threads=1,
        env_steps=env_steps,
        seed=seed,
        gorila=replace(config.gorila, **{"bundles": 2, "shards": 2, "snapshot_updates": 200, **gorila}),
    )


class Killer:
    """Kills something of a run at random, now and then, in a thread of its own."""

    def __init__(self, cluster: LocalCluster, kills: int, kinds: list[str], pause_s: float, seed: int):
        self._cluster, self._kills, self._kinds, self._pause_s = cluster, kills, kinds, pause_s
        self._random = random.Random(seed)
        self.killed = dict.fromkeys(kinds, 0)
        self.over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._nodes = [1, 2]
        self._thread.start()

    def _run(self) -> None:
        while not self.over and sum(self.killed.values()) < self._kills:
            time.sleep(self._pause_s * self._random.uniform(0.5, 1.5))
            kind = self._random.choice(self._kinds)
            with suppress(psutil.Error):
                if kind == "node":
                    i = self._nodes.pop(self._random.randrange(len(self._nodes)))
                    self._cluster.kill_node(i)
                    self.killed[kind] += 1
                    time.sleep(SETTLE_S)
                    self._nodes.append(self._cluster.add_node())
                elif found := titled(TITLES[kind]):
                    victim = self._random.choice(found)
                    victim.kill()
                    self.killed[kind] += 1
                    print(f"killed {kind} {victim.pid}", flush=True)
        while not self.over:  # nodes end with the thread that has started them
            time.sleep(0.1)


def titled(title: str, pid: int | None = None) -> list[psutil.Process]:
    """Return the descendants of a process with a title, which Ray gives to its actors. pid: default, this process."""
    found = []
    for p in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.Error):
            if p.cmdline() and p.cmdline()[0].startswith(title):
                found.append(p)
    return found


def run(
    folder: Path, config: TrainConfig, kills: int, kinds: list[str], pause_s: float, seed: int = 1
) -> tuple[dict[str, object], dict[str, int]]:
    """Run with kills; returns the result, and the number of kills of each kind."""
    with local_cluster(nodes=3, cpus=2) as cluster:
        resolved = replace(resolve(config), run_dir=str(folder))
        run_folder = RunFolder.create(folder, resolved)
        driver = Driver(cluster.ray, resolved, run_folder)
        killer = Killer(cluster, kills, kinds, pause_s, seed)
        try:
            result = driver.train()
        finally:
            killer.over = True
        return result.to_dict(), killer.killed


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--kinds", default="member,shard,evaluator,board,node")
    parser.add_argument("--pause-s", type=float, default=5.0)
    parser.add_argument("--env-steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--replay", default="local")
    given = parser.parse_args()
    config = catch(given.env_steps, given.seed, replay=given.replay)
    result, killed = run(given.folder, config, given.kills, given.kinds.split(","), given.pause_s, given.seed)
    print(json.dumps({"result": result, "killed": killed}))


if __name__ == "__main__":
    main()
