"""Grids of settings: crossed and zipped levels, unknown keys, and names of run folders."""

from dataclasses import replace

import pytest

from accel_rl.papers import daley, stooke
from accel_rl.settings.resolved import resolve
from accel_rl.settings.train import TrainConfig, default_config
from accel_rl.sweeps.grid import Grid, Level, find_grid, grid, overridden, scaled
from accel_rl.sweeps.layout import Needs, needs_of
from accel_rl.text.errors import ConfigError
from tests.sweeps import grids

PPO = default_config("ppo")


def test_levels_are_crossed_and_keys_of_one_are_zipped():
    g = grid(PPO, {"game": ("pong", "breakout")}, {"envs": (8, 64), "horizon": (256, 32)}, seeds=(0, 1))
    found = [(m.config.env.game, m.config.sampler.envs, m.config.sampler.horizon, m.config.seed) for m in g.members]
    assert found == [(g, b, t, s) for g in ("pong", "breakout") for b, t in ((8, 256), (64, 32)) for s in (0, 1)]
    assert g.members[0].name == "pong,envs=8,horizon=256,seed=0"
    assert g.members[0].labels == {"game": "pong", "envs": "8", "horizon": "256", "seed": "0"}


def test_a_level_can_name_its_folders():
    g = grid(PPO, Level({"envs": (8, 64), "horizon": (256, 32)}, names=("few", "many")))
    assert [m.name for m in g.members] == ["envs+horizon=few", "envs+horizon=many"]


def test_a_run_asks_for_a_gpu_a_rank_and_a_core_a_worker():
    def needs(**group_and_workers):
        workers = group_and_workers.pop("workers", None)
        sampler = replace(PPO.sampler, workers=workers)
        return needs_of(replace(PPO, distributed=replace(PPO.distributed, **group_and_workers), sampler=sampler))

    assert needs() == Needs(1, 1) and needs(workers=8) == Needs(1, 8)
    assert needs(ranks=32, update="async") == Needs(32, 32) and needs(ranks=2, workers=3) == Needs(2, 6)


def test_levels_say_what_the_configuration_does_not():
    sizes = Level({"envs": (8, 64)}, gpus=(1, 8))
    g = grid(PPO, sizes, Level({"horizon": (32, 64)}, gpus=(2, 4), cores=(3, 6)))
    assert [m.needs for m in g.members] == [Needs(2, 3), Needs(4, 6), Needs(8, 3), Needs(8, 6)]  # the largest entry
    assert [m.needs for m in grid(PPO, sizes, seeds=(0,)).members] == [Needs(1, 1), Needs(8, 1)]


def test_needs_follow_changes_of_the_configuration():
    g = overridden(grid(PPO, Level({"envs": (8, 64)}, cores=(4, 4))), {"ranks": "2"})
    assert [m.needs for m in g.members] == [Needs(2, 4)] * 2
    assert [m.needs for m in overridden(g, {"workers": "5"}).only({"envs": ["8"]}).members] == [Needs(2, 4)]


def test_a_function_that_returns_a_grid_takes_seeds_as_a_parameter():
    name = "tests.sweeps.grids:seeded"
    assert [m.config.seed for m in find_grid(name).members] == [0, 1]
    assert [m.config.seed for m in find_grid(name, seeds=(7, 8, 9)).members] == [7, 8, 9]


def test_a_list_of_games_stands_for_those_of_the_grid():
    g = grid(PPO, {"game": ("pong", "qbert", "phoenix")}, seeds=(0,))
    assert [m.labels["game"] for m in g.only({"game": ["atari5"]}).members] == ["qbert", "phoenix"]
    assert [m.labels["game"] for m in g.only({"game": ["atari5", "pong"]}).members] == ["pong", "qbert", "phoenix"]
    with pytest.raises(ConfigError, match="level game has no value 'atari10'; it has: pong"):
        grid(PPO, {"game": ("pong",)}).only({"game": ["atari10"]})


def test_a_function_takes_its_levels_as_arguments():
    g = find_grid("tests.sweeps.grids:swept")
    assert [m.name for m in g.members] == ["envs=4,seed=0", "envs=4,seed=1", "envs=8,seed=0", "envs=8,seed=1"]
    assert [m.config.seed for m in find_grid("tests.sweeps.grids:swept", seeds=(7,)).members] == [7, 7]


def test_a_function_of_one_run_is_a_grid_of_one():
    assert [m.config for m in find_grid("tests.sweeps.grids:cartpole").members] == [grids.cartpole()]


def test_grids_are_added_and_chosen_from():
    both = grid(PPO, {"game": ("pong",)}) + grid(PPO, {"game": ("breakout", "qbert")})
    assert [m.name for m in both.only({"game": ["qbert", "pong"]}).members] == ["pong", "qbert"]
    with pytest.raises(ConfigError, match="two runs"):
        both + grid(PPO, {"game": ("pong",)})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: grid(PPO, {"learning_rte": (1,)}), ["learning_rte", "nearest", "learning-rate"]),
        (lambda: grid(PPO, {"interval": (1,)}), ["interval", "ambiguous"]),
        (lambda: grid(PPO, {"algorithm": ("dqn",)}), ["algorithm"]),
        (lambda: grid(PPO, {"envs": ()}), ["'envs' is empty"]),
        (lambda: grid(PPO, {}), ["empty"]),
        (lambda: grid(PPO, {"envs": (1, 2), "horizon": (3,)}), ["envs has 2 values and horizon has 1"]),
        (lambda: grid(PPO, {"envs": (8, 8)}), ["two runs", "envs=8", "twice"]),
        (lambda: grid(PPO, {"seed": (1,)}, seeds=(0,)), ["'seed' is in two levels"]),
        (lambda: grid(PPO, {"envs": ("many",)}), ["sampler.envs='many'", "a whole number"]),
        (lambda: grid(PPO, {"horizon": (1.5,)}), ["sampler.horizon=1.5"]),
        (lambda: grid(PPO, {"reset": ("waitt",)}), ["'waitt'", "wait"]),
        (lambda: grid(PPO, {"strict": (1,)}), ["strict=1", "True or False"]),
        (lambda: grid(PPO, Level({"envs": (1, 2)}, names=("a",))), ["1 names for 2 values"]),
        (lambda: grid(PPO, Level({"envs": (1, 2)}, gpus=(1,))), ["envs", "1 gpus for 2 values"]),
        (lambda: grid(PPO, Level({"envs": (1, 2)}, cores=(1, 2, 3))), ["3 cores for 2 values"]),
        (lambda: grid(PPO, Level({"envs": (1, 2)}, gpus=(0, 1))), ["envs", "gpus 0", "from 1 on"]),
        (lambda: grid(grids.swept, {"env": (4,)}), ["swept", "'env'", "nearest: envs"]),
        (lambda: find_grid("tests.sweeps.grids:no_grid"), ["int", "not a grid"]),
        (lambda: find_grid("tests.sweeps.grids:smal"), ["smal", "small"]),
        (lambda: find_grid("a2c"), ["no function"]),
        (lambda: find_grid("tests.sweeps.grids:small", seeds=(1,)), ["--seeds", "'seeds'", "--only"]),
        (lambda: find_grid("tests.sweeps.grids:small").only({"env": ["4"]}), ["'env'", "nearest: envs"]),
        (lambda: find_grid("tests.sweeps.grids:small").only({"envs": ["5"]}), ["'5'", "4, 8"]),
        (lambda: overridden(find_grid("tests.sweeps.grids:small"), {"env-stps": "1"}), ["env-stps", "env-steps"]),
        (lambda: overridden(find_grid("tests.sweeps.grids:small"), {"seed": "x"}), ["--seed", "x"]),
    ],
)
def test_what_does_not_fit_is_one_line(make, words):
    with pytest.raises(ConfigError) as e:
        make()
    assert all(w in str(e.value) for w in words) and "\n" not in str(e.value), str(e.value)


def test_values_may_be_lists_none_and_whole_numbers_for_floats():
    g = grid(PPO, {"cores": ([0, 1],)}, {"horizon": (None,)}, {"learning_rate": (1,)})
    config = g.members[0].config
    assert config.sampler.cores == (0, 1) and config.sampler.horizon is None and config.algo.learning_rate == 1
    assert g.members[0].name == "cores=0x1,horizon=None,learning_rate=1"


def test_overrides_are_written_as_on_the_command_line():
    g = overridden(find_grid("tests.sweeps.grids:small"), {"env-steps": "2e3", "strict": "True", "cores": "0 1"})
    assert all((m.config.env_steps, m.config.strict, m.config.sampler.cores) == (2000, True, (0, 1)) for m in g.members)
    assert [m.config.sampler.envs for m in g.members] == [4, 4, 8, 8]


@pytest.mark.parametrize("name", ["a2c", "rainbow"])
def test_a_scaled_run_is_shorter_and_can_be_begun(name):
    base = default_config(name)
    base = replace(base, env=replace(base.env, game="pong"), env_steps=50_000_000)
    small = scaled(base, 1e-3)
    assert (
        small.env_steps == 50_000
        and small.evaluation.interval == 1_000
        and small.algo.learning_rate == (base.algo.learning_rate)
    )
    if name == "rainbow":
        assert (small.algo.replay.size, small.algo.replay.start) == (1_000, base.algo.replay.start // 1000)
    resolve(small)


def test_every_member_is_a_whole_configuration():
    g = find_grid("tests.sweeps.grids:small")
    assert isinstance(g, Grid)
    for m in g.members:
        assert TrainConfig.from_dict(m.config.to_dict()) == m.config


def test_a_scaled_run_has_room_for_a_rollout_and_few_evaluations():
    """A run that --scale makes shorter is valid, and has at most ten evaluations."""
    base = stooke.dqn_scaling(batch_size=32)
    for scale in (1e-4, 1e-5):
        small = scaled(base, scale)
        resolve(small)
        assert small.env_steps / small.evaluation.interval <= 10
    assert scaled(base, 0.5).evaluation.interval == base.evaluation.interval / 2
    suite = scaled(daley.table_4(), 1e-3)
    assert suite.evaluation.episodes == 30 and suite.env_steps / suite.evaluation.interval <= 10


@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize("scale", [0.5, 0.02, 0.002, 0.0005])
def test_a_scaled_concurrent_run_has_several_periods(scale, threads):
    """A concurrent run needs several periods, because a run of a single period makes no updates."""
    base = daley.table_1(threads, "both" if threads > 1 else "concurrent")
    small = scaled(base, scale)
    resolve(small)
    assert small.env_steps / small.period >= 15 and small.period <= base.period
    assert scaled(daley.table_1(8, "synchronized"), scale).algo.target_interval == base.algo.target_interval


def test_a_value_of_several_games():
    runs = grid(default_config("ppo"), {"game": ("pong", "pong,breakout")})
    assert [m.name for m in runs.members] == ["pong", "pong_breakout"]
    assert [m.config.env.games for m in runs.members] == [("pong",), ("pong", "breakout")]
    assert [m.config.env.game for m in overridden(runs, {"game": "breakout,pong"}).members] == ["breakout,pong"] * 2
