"""The first phase of Go-Explore (Ecoffet et al. 2021, arXiv:2004.12919) on Montezuma's Revenge. The emulator's states
are saved and restored exactly.

    python examples/go_explore.py montezuma_revenge --minutes 5

A cell is a screen of the game, reduced to 12 x 7 pixels of 8 brightnesses. For each cell, an archive stores the
emulator's state in which the cell was reached with the best score. The program repeatedly selects a cell, restores the
cell's state, and plays random actions from this state. No network is trained: the result is a sequence of actions,
which the program plays again from the beginning to check its score.
"""

import argparse
import time
import zlib
from dataclasses import dataclass

import numpy as np

from accel_rl import VectorEnv

STEPS = 100
"""Number of random actions from a selected cell (Ecoffet et al. 2021: 100)."""
REPEAT = 0.95
"""Probability that the last action is repeated (Ecoffet et al. 2021: 0.95)."""
BRIGHTNESSES = 8


@dataclass
class Cell:
    state: bytes
    """The emulator's state, compressed."""
    score: float
    trajectory: "Trajectory | None"
    length: int
    """Number of actions from the beginning of the game."""
    seen: int = 0


@dataclass
class Trajectory:
    """The actions after those of the trajectory `before`, which can be the beginning of several trajectories."""

    before: "Trajectory | None"
    actions: bytes

    def whole(self) -> bytes:
        parts, at = [], self
        while at is not None:
            parts.append(at.actions)
            at = at.before
        return b"".join(reversed(parts))


def make_env(game: str, n: int) -> VectorEnv:
    """The environment has neither sticky actions nor no-ops, so that the same actions reach the same states again."""
    return VectorEnv(
        game, num_envs=n, stack_num=1, repeat_action_probability=0.0, noop_max=0,
        reward_clipping=False, use_fire_reset=False, max_num_frames_per_episode=1_000_000_000,
    )  # fmt: skip


def keys(obs: np.ndarray) -> list[bytes]:
    """Reduce observations [n, 1, 84, 84] to cells, and return these as n keys of the archive."""
    rows = obs.reshape(-1, 7, 12, 84).sum(2, dtype=np.uint16)
    mean = rows.reshape(len(obs), -1, 7).sum(-1) // (12 * 7)
    return [row.tobytes() for row in (mean // (256 // BRIGHTNESSES)).astype(np.uint8)]


class Explorer:
    def __init__(self, game: str, n: int, seed: int):
        self.envs, self.random = make_env(game, n), np.random.default_rng(seed)
        obs, _ = self.envs.reset(seed=seed)
        begin = zlib.compress(self.envs.clone_state([0])[0], 1)
        self.archive = {keys(obs)[0]: Cell(begin, 0.0, None, 0)}
        self.best = next(iter(self.archive.values()))
        self.steps = 0

    def explore(self) -> None:
        """Restore the states of n cells, and play random actions from each state."""
        envs, n = self.envs, self.envs.num_envs
        cells = self.selected(n)
        envs.restore_state([zlib.decompress(cell.state) for cell in cells])
        score, going = np.array([cell.score for cell in cells]), np.ones(n, bool)
        actions = self.random.integers(envs.single_action_space.n, size=n)
        played = np.empty((n, STEPS), np.uint8)
        for t in range(STEPS):
            new = self.random.random(n) >= REPEAT
            actions = np.where(new, self.random.integers(envs.single_action_space.n, size=n), actions)
            played[:, t] = actions
            obs, reward, terminated, truncated, _ = envs.step(actions)
            score += reward
            going &= ~(terminated | truncated)
            self.steps += int(going.sum())
            self.archive_new(keys(obs), cells, score, going, played[:, : t + 1])
            if not going.any():
                break

    def selected(self, n: int) -> list[Cell]:
        """Draw n cells with probabilities in proportion to 1 / sqrt(seen + 1)."""
        cells = list(self.archive.values())
        weight = np.array([cell.seen + 1 for cell in cells]) ** -0.5
        return [cells[i] for i in self.random.choice(len(cells), n, p=weight / weight.sum())]

    def archive_new(
        self, found: list[bytes], begun: list[Cell], score: np.ndarray, going: np.ndarray, played: np.ndarray
    ) -> None:
        """Store the states of environments that reached a new cell, or a known cell with a higher score, or with the
        same score and fewer actions."""
        better = {}
        for i in np.flatnonzero(going):
            length, old = begun[i].length + played.shape[1], self.archive.get(found[i])
            if old is not None:
                old.seen += 1
            if old is None or (score[i], -length) > (old.score, -old.length):
                better[found[i]] = i, length
        if not better:
            return
        states = self.envs.clone_state([i for i, _ in better.values()])
        for (key, (i, length)), state in zip(better.items(), states, strict=True):
            trajectory = Trajectory(begun[i].trajectory, played[i].tobytes())
            cell = Cell(zlib.compress(state, 1), float(score[i]), trajectory, length)
            self.archive[key] = cell
            if (cell.score, -cell.length) > (self.best.score, -self.best.length):
                self.best = cell


def replayed(game: str, actions: bytes, seed: int) -> float:
    """The score of a new game in which `actions` are played."""
    envs, score = make_env(game, 1), 0.0
    envs.reset(seed=seed)
    for action in actions:
        _, reward, terminated, _, _ = envs.step(np.array([action]))
        score += float(reward[0])
        if terminated[0]:
            break
    envs.close()
    return score


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("game", nargs="?", default="montezuma_revenge")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--envs", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    o = parser.parse_args()
    explorer, begin, shown = Explorer(o.game, o.envs, o.seed), time.monotonic(), 0.0
    while (elapsed := time.monotonic() - begin) < 60 * o.minutes:
        explorer.explore()
        if elapsed >= shown:
            shown += 60 * o.minutes / 10
            rate = explorer.steps / max(elapsed, 1e-9)
            print(
                f"{elapsed / 60:5.1f} min  {explorer.steps:>11,} steps ({rate:,.0f}/s)  "
                f"{len(explorer.archive):>7,} cells  best score {explorer.best.score:,.0f}",
                flush=True,
            )
    best = explorer.best
    actions = best.trajectory.whole() if best.trajectory else b""
    explorer.envs.close()
    print(
        f"best score {best.score:,.0f} after {len(actions):,} actions; replayed from the beginning: "
        f"{replayed(o.game, actions, o.seed):,.0f}"
    )


if __name__ == "__main__":
    main()
