"""A user's script with a mistake in every line that ends with `# error`."""

import accel_rl
from accel_rl import PPO, Callback
from accel_rl.algos.algorithm import Loss
from accel_rl.algos.policy_gradient import PolicyBatch
from accel_rl.emulator import DeviceVectorEnv, VectorEnv
from accel_rl.samplers.episodes import Episode
from accel_rl.training.callback import Training

accel_rl.train("ppo", game="pong", env_stepz=1e6)  # error
accel_rl.train("ppo", game=3)  # error
accel_rl.train("ppo", game="pong", wandb="yes")  # error
accel_rl.train("ppo", game="pong", evaluation__interval="often")  # error
accel_rl.train(PPO.Config(epoch=4), game="pong")  # error
print(accel_rl.train("ppo", game="pong").score)  # error
accel_rl.make_sampler(gam="pong")  # error
accel_rl.make_sampler("ppo", game="pong", horizon="long")  # error
accel_rl.Run("runs/pong").resume(learning_rat=1e-4)  # error
accel_rl.Run("runs/pong").resume(game="breakout")  # error
accel_rl.Run("runs/pong").resume(device=0)  # error
VectorEnv("pong", 8, noopmax=3)  # error
VectorEnv("pong", num_envs="8")  # error
VectorEnv("pong")  # error
VectorEnv("pong", 8, device="cuda")  # error
VectorEnv("pong", 8).reset()[-1]["live"]  # error
VectorEnv("pong", 8).options.frameskip = 3  # error
DeviceVectorEnv("pong", 8, device=0)  # error
DeviceVectorEnv("pong", 8).step([0])[-1]["final_info"]  # error
accel_rl.train("ppo", game="pong", hidden="64")  # error
accel_rl.train("ppo", game="pong", activation="mish")  # error
with accel_rl.make_sampler(game="pong") as sampler:
    print(sampler.finished[0].scores)  # error
    print(sampler.spec.shape)  # error


class MyPPO(PPO):
    def loss(self, batch: PolicyBatch) -> Loss:
        print(self.config.entropy)  # error
        print(self.agent.logits)  # error
        return super().loss(batch)


class Report(Callback):
    def on_episode(self, training: Training, episode: Episode) -> None:
        print(episode.scores)  # error
        print(training.scores)  # error
