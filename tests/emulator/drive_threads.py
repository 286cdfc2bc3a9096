"""Steps vector environments in several threads in all possible ways. .ci/sanitize runs the program under
ThreadSanitizer.

The program imports little more than numpy, because Python and its modules are not built with the sanitizer.
"""

import threading

import numpy as np
from gymnasium import error

from accel_rl.compat import envpool
from accel_rl.emulator import VectorEnv

GAMES = ("breakout", "pong")


def step_all() -> None:
    for game in GAMES:
        for mode in ("NextStep", "SameStep", "Disabled"):
            env = VectorEnv(game, 6, num_threads=3, max_num_frames_per_episode=80, autoreset_mode=mode)
            env.reset(seed=1)
            for t in range(60):
                *_, terminated, truncated, _ = env.step(np.full(6, t % 3))
                if mode == "Disabled" and (ended := terminated | truncated).any():
                    env.reset(options={"reset_mask": ended})
            saved = env.clone_state()
            env.step(np.zeros(6, int))
            env.restore_state(saved)
            env.step(np.zeros(6, int))
            env.close()


def receive_in_batches() -> None:
    envs = envpool.make("Pong-v5", env_type="gymnasium", num_envs=6, batch_size=2, num_threads=3, max_episode_steps=30)
    envs.async_reset()
    for _ in range(120):
        info = envs.recv()[-1]
        envs.send(np.zeros(2, int), info["env_id"])
    envs.close()


def answer_two_batches() -> None:
    envs = VectorEnv("breakout", 6, batch_size=2, num_threads=3, max_num_frames_per_episode=80)
    pool = envpool.make("Pong-v5", env_type="gymnasium", num_envs=6, batch_size=2, num_threads=3)
    waiting = [envs.reset(seed=1)[-1]["env_id"], envs.recv()[-1]["env_id"]]
    pool.async_reset()
    pooled = [pool.recv()[-1]["env_id"], pool.recv()[-1]["env_id"]]
    for _ in range(60):
        envs.send(np.zeros(2, int), waiting.pop(0))
        waiting.append(envs.recv()[-1]["env_id"])
        pool.send(np.zeros(2, int), pooled.pop(0))
        pooled.append(pool.recv()[-1]["env_id"])
    for ids in waiting:
        envs.send(np.zeros(1, int), ids[:1])  # only some environments
    envs.close()
    pool.close()


def call_from_two_threads() -> None:
    env = VectorEnv("pong", 4, num_threads=2)
    env.reset(seed=1)

    def step() -> None:
        for _ in range(50):
            try:
                env.step(np.zeros(4, int))
            except error.AlreadyPendingCallError:  # the other thread steps
                continue

    threads = [threading.Thread(target=step) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    env.close()


def close_while_playing() -> None:
    for _ in range(5):
        env = VectorEnv("pong", 4, num_threads=2)
        env.reset(seed=1)
        env.send(np.zeros(4, int))
        env.close()


if __name__ == "__main__":
    step_all()
    receive_in_batches()
    answer_two_batches()
    call_from_two_threads()
    close_while_playing()
    print("threads: clean")
