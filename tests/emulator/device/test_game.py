"""With the tables of a DeviceGame, the fast path of the GPU kernels plays the first step from every start state."""

import copy

import pytest
import torch

pytest.importorskip("ale_py")
pytest.importorskip("accel_rl.emulator._core")

from accel_rl.emulator.atari import core
from accel_rl.emulator.device.envs import DeviceEnvs, DeviceStep
from accel_rl.emulator.device.game import DeviceGame
from accel_rl.envs.atari_games import ATARI_57
from accel_rl.envs.make import make_spec
from accel_rl.samplers.device_games import make_device_game
from tests.env_settings import env_of


def make_game(name: str, **settings: object) -> DeviceGame:
    return make_device_game(env_of(game=name, frame="84x84", randomness="counter", **settings), True, False, "cpu")


def seeds_of_all_starts(game: DeviceGame, columns: range) -> list[int]:
    """Return one seed for each start state in the given columns of the game's table of start states."""
    seeds: dict[tuple[int, int], int] = {}
    wanted, seed = game.start_rows * len(columns), 0
    while len(seeds) < wanted:
        start = core().counter.start_draws(seed, 0, game.start_rows, game.start_columns)
        if start[1] in columns:
            seeds.setdefault(start, seed)
        seed += 1
    return list(seeds.values())


def first_step(game: DeviceGame, seeds: list[int], actions: torch.Tensor) -> tuple[DeviceEnvs, DeviceStep]:
    envs, out = DeviceEnvs(game, seeds), DeviceStep.empty(len(seeds), game)
    envs.begin(out)
    envs.step(actions, out)
    return envs, out


def test_qbert_begins_within_a_frame() -> None:
    """Some start states of qbert are within a frame. The first step of the GPU kernels' fast path, with the table
    `continued`, has the results of the emulator's plain core."""
    game = make_game("qbert", repeat_action_probability=0.25)
    seeds = seeds_of_all_starts(game, range(1))
    actions = torch.arange(len(seeds)) % make_spec(env_of(game="qbert"), training=True).n_actions
    plain = copy.copy(game)
    plain.tables = {**game.tables, "continued": torch.empty(0, dtype=torch.uint8)}
    (fast, fast_out), (slow, slow_out) = first_step(game, seeds, actions), first_step(plain, seeds, actions)
    assert slow.code.bool().all() and not fast.code.any()
    assert fast.get_state() == slow.get_state()
    for name in ("frame", "age", "reward", "terminated", "truncated", "ended", "valid"):
        assert torch.equal(getattr(fast_out, name), getattr(slow_out, name)), name


def test_a_start_of_another_table_is_not_continued() -> None:
    """If an environment's state is within a frame, and is no start state of the game, the emulator's plain core plays
    the next step."""
    game = make_game("qbert")
    (seed,) = seeds_of_all_starts(game, range(1))[:1]
    envs, out = DeviceEnvs(game, [seed]), DeviceStep.empty(1, game)
    envs.begin(out)
    envs.state["envs"][0] ^= 1  # no start state
    envs.step(torch.zeros(1, dtype=torch.int64), out)
    assert envs.code.item()


def test_two_frames_a_step_are_drawn() -> None:
    """With frame_skip 2, the plain core plays the first step from a start state within a frame, because the step needs
    the picture of the start state's frame, which the start state lacks."""
    game = make_game("qbert", frame_skip=2)
    envs, _ = first_step(game, seeds_of_all_starts(game, range(1))[:3], torch.zeros(3, dtype=torch.int64))
    assert envs.code.bool().all()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ATARI_57)
def test_the_fast_core_plays_the_first_step(name: str) -> None:
    game = make_game(name)
    seeds = seeds_of_all_starts(game, range(game.start_columns))
    envs, _ = first_step(game, seeds, torch.arange(len(seeds)) % 3)
    assert not envs.code.any()
