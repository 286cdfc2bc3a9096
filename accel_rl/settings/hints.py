"""Suggests this project's flags for flags of CleanRL, Stable-Baselines3 and RLlib."""

from collections.abc import Collection, Iterable

REPLAY, ROLLOUT = "transitions of one update", "samples of one update; a rollout has --envs x --horizon"
HORIZON, CLASS = "steps of each environment in a rollout", "module:Class; may be repeated"
INTENSITY = "how often each transition is used on average: batch size / env steps between updates"
ONE_BATCH = "each rollout of --envs x --horizon samples is one batch, used once"
COPIES = "env steps between copies"

# Each line contains flags of other libraries, and for these the corresponding flags of this project with explanations.
# The first flag that the chosen algorithm has is suggested. With - in place of a flag, only the explanation is printed.
TABLE = f"""
lr = --algo.learning-rate
anneal-lr = --algo.learning-rate-schedule, constant or linear
n-steps = --algo.n-step, rewards that a target sums | --sampler.horizon, {HORIZON}
num-steps rollout-fragment-length = --sampler.horizon, {HORIZON}
num-env num-envs n-envs = --sampler.envs
total-timesteps timesteps n-timesteps = --env-steps, of all environments together; 4 emulated frames each in Atari
num-workers num-rollout-workers num-env-runners = --sampler.workers, processes that step the environments
train-batch-size = --algo.batch-size, {REPLAY} | --sampler.horizon, a rollout has --envs x --horizon samples
sgd-minibatch-size batch-size minibatch-size = --algo.minibatch, {ROLLOUT}
  | --algo.batch-size, {REPLAY} | -, {ONE_BATCH}
num-minibatches = --algo.minibatch, samples of a minibatch, not their number: envs x horizon / minibatches
  | --algo.batch-size, {REPLAY} | -, {ONE_BATCH}
n-epochs update-epochs = --algo.epochs | --algo.intensity, {INTENSITY} | -, {ONE_BATCH}
ent-coef = --algo.entropy-coefficient | --algo.epsilon-final, share of random actions in the end
vf-coef = --algo.value-coefficient
clip-range clip-coef = --algo.clip
clip-range-vf clip-vloss = --algo.value-clip
norm-adv normalize-advantage = --algo.normalize-advantage
norm-reward = --algo.normalize-rewards
gae-lambda = --algo.gae-lambda | --algo.n-step, rewards that a target sums
target-kl = --algo.target-kl
max-grad-norm = --algo.clip-grad-norm, largest L2 norm of the gradient; 0: any
buffer-size = --algo.replay.size, transitions of all environments together
learning-starts = --algo.replay.start, env steps of random play before the first update
target-network-frequency target-update-interval = --algo.target-interval, {COPIES}
tau = --algo.target-interval, {COPIES}; there is no soft update
train-frequency train-freq = --algo.intensity, {INTENSITY}
gradient-steps = --algo.intensity, {INTENSITY} | --algo.epochs
exploration-fraction = --algo.epsilon-steps, env steps of the descent: fraction x --env-steps
exploration-initial-eps start-e = --algo.epsilon
exploration-final-eps end-e = --algo.epsilon-final
rms-prop-eps = --algo.optimizer-eps
use-rms-prop = --algo.optimizer, such as rmsprop or adam
policy policy-kwargs = --algo.network, a3c, dqn, nature or a class
hidden-size hidden-sizes net-arch = --algo.hidden, such as 64,64
activation-fn = --algo.activation
algorithm algo agent = -, the algorithm comes first: accel-rl train ppo ...
env-id = -, --game pong for Atari, --env CartPole-v1 for Gymnasium
frame-stack = --env.stack
track = --wandb, online, offline or disabled
wandb-project-name = --wandb-project
wandb-entity = -, set the environment variable WANDB_ENTITY
tensorboard-log = --log.tensorboard, events go into the run folder
exp-name name run-name log-dir save-dir = --run-dir, folder of the run
load load-model load-path pretrained warm-start = --init, run or model
save-model save-freq save-interval checkpoint-freq = --checkpoint.interval, env steps; the end of a run is always saved
callbacks callback-class = --callback, {CLASS}
sinks logger = --sink, {CLASS}
capture-video = --callback, 'VideoEvery(env_steps=500_000)'; accel-rl watch RUN makes one
eval-freq = --evaluation.interval, env steps
n-eval-episodes = --evaluation.episodes
stats-window-size = --log.window, episodes that the online score averages over
torch-deterministic = -, runs with the same --seed are equal bit for bit on a CPU
resume restore = -, accel-rl resume RUN continues a run in its folder; --init RUN begins another from its network
smooth smoothing = -, scores are already means of the last 100 episodes (--log.window)
cuda = --device, auto, cpu, cuda or cuda:N
verbose progress-bar silent = -, --quiet prints only warnings and errors
config config-file yaml = -, --config FILE of accel-rl train begins with the settings of a run (train(Run(FILE).config))
"""


def named(name: str, flags: Iterable[str]) -> list[str]:
    """The flags whose full or shortened name is `name`, such as replay.size for --algo.replay.size."""
    return [flag for flag in flags if f".{flag[2:]}".endswith(f".{name}")]


LINES = [line.split(" = ") for line in TABLE.strip().replace("\n  ", " ").splitlines()]
HINTS = {name: answers.split(" | ") for names, answers in LINES for name in names.split()}


def hint(name: str, flags: Collection[str]) -> str:
    """The chosen algorithm's equivalent of another library's flag, or "" for an unknown flag. `name` is the flag
    without dashes. `flags` are all flags of the command."""
    if name not in HINTS or ("--sampler.envs" not in flags and not name.startswith("smooth")):
        return ""
    for answer in HINTS[name]:
        flag, _, meaning = answer.partition(", ")
        bare = flag[2:].partition(".")[2]
        if flag in flags:
            flag = f"--{bare}" if named(bare, flags) == [flag] else flag
            return f"use {flag} ({meaning})" if meaning else f"use {flag}"
        if flag == "-":
            return meaning
    return "this algorithm has no such setting"
