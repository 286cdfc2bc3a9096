"""Registers Gymnasium ids of the emulator's games.

    import accel_rl
    import gymnasium
    gymnasium.register_envs(accel_rl.gym)
    envs = gymnasium.make_vec("accel_rl/Breakout-v5", num_envs=64)
    env = gymnasium.make("accel_rl/Breakout-v5")

`make_vec` makes a `VectorEnv`, and `make` makes a single environment with the same observations. Names, version and
default arguments are those of ale-py's ids. `repeat_action_probability` is 0.25, as Machado et al. 2018 recommend.
"""

from gymnasium.envs.registration import register, registry

from accel_rl.emulator.games import camel_case, vector_games

V5 = {
    "repeat_action_probability": 0.25,
    "full_action_space": False,
    "frameskip": 4,
    "max_num_frames_per_episode": 108_000,
}


def env_id(game: str) -> str:
    """The Gymnasium id of a game, such as accel_rl/MsPacman-v5 for ms_pacman."""
    return f"accel_rl/{camel_case(game)}-v5"


for _game in vector_games():
    if env_id(_game) not in registry:
        register(
            env_id(_game),
            entry_point="accel_rl.emulator.single_env:SingleEnv",
            vector_entry_point="accel_rl.emulator.vector_env:VectorEnv",
            kwargs={"game": _game, **V5},
        )
