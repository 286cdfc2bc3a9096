"""Measures the time of an agent step of games that the GPU emulates, for 32 to 65,536 environments."""

import time
from dataclasses import replace
from statistics import median

import torch

from accel_rl.emulator.device import block_kernel
from accel_rl.emulator.device.cuda import kernels_of
from accel_rl.emulator.device.envs import DeviceEnvs, DeviceStep
from accel_rl.emulator.device.game import DeviceGame, begin_translation
from accel_rl.emulator.device.kernel_trial import in_play
from accel_rl.samplers.device_games import make_device_game
from benchmarks.cuda_emulator import FRAMES, Load
from benchmarks.gpu.bench import Bench, Goal, Result
from benchmarks.harness.measured_training import synchronize

MOST_MS, LEAST_FRAMES = 4.0, 5e6
"""Goals for the median of the games: milliseconds per step of 1,024 environments, and frames/s of 8,192
environments."""
DRAWN = 8  # The random actions of 8 agent steps are played again and again.
PLAYED = 1_024
"""Number of environments that play before a measurement. Measurements with more environments begin with copies of the
states of these environments."""


def measure(bench: Bench) -> Result:
    """Measure the GPU kernel for all games, and the kernels that were compiled for single games. Measurements begin
    after `emulated_steps` steps, when no game shows its start screen any more."""
    sizes = bench.sizes
    result = Result(("game", "kernel", *(f"{n:,} environments, us" for n in sizes.step_envs)))
    best: dict[str, list[float]] = {}
    for game in sizes.step_games:  # The kernels of all games are compiled simultaneously.
        begin_translation(game, bench.device)
    for game in sizes.step_games:
        config = Load(game, 1).config(bench.device)
        for translate in ("auto", "off"):
            tables = make_device_game(replace(config.env, translate=translate), True, True, bench.device)
            if translate == "auto" and not tables.translated:
                continue  # On a CPU, no kernel is compiled for a single game.
            kernel = "all games"
            if tables.translated:
                kernels = kernels_of(tables.device)
                kernels.load_blocks(game)
                # Forget the trial that compared the kernels, so that the game's own kernel is measured even if it lost.
                if trial := kernels.trials.pop(game, None):
                    result.notes.append(f"{game}: {trial}")
                kernel = "the game's" if kernels.has_blocks(game) else "all games, as its own failed"
            seconds = times(tables, config.spec.n_actions, bench)
            best[game] = [min(pair) for pair in zip(seconds, best.get(game, seconds), strict=True)]
            result.rows.append([game, kernel, *(round(1e6 * s) for s in seconds)])
            bench.save(result)
        if bench.left < bench.seconds / len(sizes.step_games):
            result.notes.append(f"the time ended after {game}")
            break
    if not block_kernel.is_on(True):
        result.notes.append("the games' own kernels are off, or the emulator was compiled from other sources")
    medians = dict(zip(sizes.step_envs, map(median, zip(*best.values(), strict=True)), strict=True))
    if seconds_1k := medians.get(1_024):
        goal = Goal("a step of 1,024 environments, ms, median", 1e3 * seconds_1k, MOST_MS, at_least=False)
        result.goals.append(goal)
    if seconds_8k := medians.get(8_192):
        result.goals.append(Goal("frames/s with 8,192 environments, median", 8_192 * FRAMES / seconds_8k, LEAST_FRAMES))
    return result


def times(game: DeviceGame, n_actions: int, bench: Bench) -> list[float]:
    """Return the seconds per step with random actions, for each number of environments."""
    generator = torch.Generator().manual_seed(0)
    played = min(PLAYED, max(bench.sizes.step_envs))
    envs = in_play(game, played, n_actions, bench.sizes.emulated_steps)
    result = []
    for n in bench.sizes.step_envs:
        more, out = DeviceEnvs(game, list(range(n))), DeviceStep.empty(n, game)
        # The n environments begin with copies of the states in `envs`, whose environments have played.
        chosen = torch.arange(n, device=game.device) * max(1, played // n) % played
        more.state["envs"].copy_(envs.state["envs"][:, chosen])
        drawn = torch.randint(n_actions, (DRAWN, n), generator=generator).to(game.device)
        more.step(drawn[0], out)
        synchronize(bench.device)
        steps, passed, begun = 0, 0.0, time.perf_counter()
        while passed < bench.sizes.shortest:
            for action in drawn:
                more.step(action, out)
            synchronize(bench.device)
            steps, passed = steps + DRAWN, time.perf_counter() - begun
        result.append(passed / steps)
    return result
