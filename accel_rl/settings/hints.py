"""This module maps flags of CleanRL, Stable-Baselines3 and RLlib to flags of this project."""

from collections.abc import Collection, Mapping

REPLAY, ROLLOUT = "transitions of one update", "samples of one update; a rollout has --envs x --horizon"
INTENSITY = "how often each transition is used on average: batch size / env steps between updates"
ONE_BATCH = "each rollout of --envs x --horizon samples is one batch, used once"
RUN = "accel-rl train always shows progress"

# Maps each flag of another library to pairs (flag of this project, its meaning).
# An error message suggests the first flag that the algorithm has. If the flag in a pair is empty, the message prints
# only the meaning.
HINTS: dict[str, tuple[tuple[str, str], ...]] = {
    "lr": (("--algo.learning-rate", ""),),
    "anneal-lr": (("--algo.learning-rate-schedule", "constant or linear"),),
    "n-steps": (
        ("--algo.n-step", "rewards that a target sums"),
        ("--sampler.horizon", "steps of each environment in a rollout"),
    ),
    "num-steps": (("--sampler.horizon", "steps of each environment in a rollout"),),
    "num-envs": (("--sampler.envs", ""),),
    "n-envs": (("--sampler.envs", ""),),
    "total-timesteps": (("--env-steps", "of all environments together; 4 emulated frames each in Atari"),),
    "timesteps": (("--env-steps", "of all environments together; 4 emulated frames each in Atari"),),
    "n-timesteps": (("--env-steps", "of all environments together; 4 emulated frames each in Atari"),),
    **dict.fromkeys(
        ("num-workers", "num-rollout-workers", "num-env-runners"),
        (("--sampler.workers", "processes that step the environments"),),
    ),
    "rollout-fragment-length": (("--sampler.horizon", "steps of each environment in a rollout"),),
    "train-batch-size": (
        ("--algo.batch-size", REPLAY),
        ("--sampler.horizon", "a rollout has --envs x --horizon samples"),
    ),
    "sgd-minibatch-size": (("--algo.minibatch", ROLLOUT), ("--algo.batch-size", REPLAY), ("", ONE_BATCH)),
    "batch-size": (("--algo.batch-size", REPLAY), ("--algo.minibatch", ROLLOUT), ("", ONE_BATCH)),
    "minibatch-size": (("--algo.minibatch", ROLLOUT), ("--algo.batch-size", REPLAY), ("", ONE_BATCH)),
    "num-minibatches": (
        ("--algo.minibatch", "samples of a minibatch, not their number: envs x horizon / minibatches"),
        ("--algo.batch-size", REPLAY),
        ("", ONE_BATCH),
    ),
    "n-epochs": (("--algo.epochs", ""), ("--algo.intensity", INTENSITY), ("", ONE_BATCH)),
    "update-epochs": (("--algo.epochs", ""), ("--algo.intensity", INTENSITY), ("", ONE_BATCH)),
    "ent-coef": (("--algo.entropy-coefficient", ""), ("--algo.epsilon-final", "share of random actions in the end")),
    "vf-coef": (("--algo.value-coefficient", ""),),
    "clip-range": (("--algo.clip", ""),),
    "clip-coef": (("--algo.clip", ""),),
    "clip-range-vf": (("--algo.value-clip", ""),),
    "clip-vloss": (("--algo.value-clip", ""),),
    "norm-adv": (("--algo.normalize-advantage", ""),),
    "normalize-advantage": (("--algo.normalize-advantage", ""),),
    "gae-lambda": (("--algo.gae-lambda", ""), ("--algo.n-step", "rewards that a target sums")),
    "target-kl": (("--algo.target-kl", ""),),
    "max-grad-norm": (("--algo.clip-grad-norm", "largest L2 norm of the gradient; 0: any"),),
    "buffer-size": (("--algo.replay.size", "transitions of all environments together"),),
    "learning-starts": (("--algo.replay.start", "env steps of random play before the first update"),),
    "target-network-frequency": (("--algo.target-interval", "env steps between copies"),),
    "target-update-interval": (("--algo.target-interval", "env steps between copies"),),
    "tau": (("--algo.target-interval", "env steps between copies; there is no soft update"),),
    "train-frequency": (("--algo.intensity", INTENSITY),),
    "train-freq": (("--algo.intensity", INTENSITY),),
    "gradient-steps": (("--algo.intensity", INTENSITY), ("--algo.epochs", "")),
    "exploration-fraction": (("--algo.epsilon-steps", "env steps of the descent: fraction x --env-steps"),),
    "exploration-initial-eps": (("--algo.epsilon", ""),),
    "start-e": (("--algo.epsilon", ""),),
    "exploration-final-eps": (("--algo.epsilon-final", ""),),
    "end-e": (("--algo.epsilon-final", ""),),
    "rms-prop-eps": (("--algo.optimizer-eps", ""),),
    "use-rms-prop": (("--algo.optimizer", "such as rmsprop or adam"),),
    "policy": (("--algo.network", "a3c, dqn or nature"),),
    "policy-kwargs": (("--algo.network", "a3c, dqn or nature"),),
    "env-id": (("", "--game pong for Atari, --env CartPole-v1 for Gymnasium"),),
    "frame-stack": (("--env.stack", ""),),
    "track": (("--wandb", "online, offline or disabled"),),
    "wandb-project-name": (("--wandb-project", ""),),
    "wandb-entity": (("", "set the environment variable WANDB_ENTITY"),),
    "tensorboard-log": (("--log.tensorboard", "events go into the run folder"),),
    "exp-name": (("--run-dir", "folder of the run"),),
    **dict.fromkeys(("load", "load-model", "load-path", "pretrained", "warm-start"), (("--init", "run or model"),)),
    **dict.fromkeys(
        ("save-model", "save-freq", "checkpoint-freq"),
        (("--checkpoint.interval", "env steps; the end of a run is always saved"),),
    ),
    "callbacks": (("--callback", "module:Class; may be repeated"),),
    "callback-class": (("--callback", "module:Class; may be repeated"),),
    "sinks": (("--sink", "module:Class; may be repeated"),),
    "logger": (("--sink", "module:Class; may be repeated"),),
    "capture-video": (("--callback", "'VideoEvery(env_steps=500_000)'; accel-rl watch RUN makes one"),),
    "eval-freq": (("--evaluation.interval", "env steps"),),
    "n-eval-episodes": (("--evaluation.episodes", ""),),
    "stats-window-size": (("--log.window", "episodes that the online score averages over"),),
    "torch-deterministic": (("", "runs with the same --seed are equal bit for bit on a CPU"),),
    "cuda": (("--device", "auto, cpu, cuda or cuda:N"),),
    "verbose": (("", RUN),),
    "progress-bar": (("", RUN),),
}


def hint(name: str, flags: Collection[str], by_name: Mapping[str, list[str]]) -> str:
    """Return a text that suggests the chosen algorithm's equivalent of another library's flag, or "" for an unknown
    flag. `name` is the flag without dashes. `flags` are all flags of the command. `by_name` maps each short name to
    flags."""
    if name not in HINTS or "--sampler.envs" not in flags:
        return ""
    for flag, meaning in HINTS[name]:
        if not flag:
            return meaning
        if flag in flags:
            short = _shortest(flag, by_name)
            return f"use {short} ({meaning})" if meaning else f"use {short}"
    return "this algorithm has no such setting"


def _shortest(flag: str, by_name: Mapping[str, list[str]]) -> str:
    """Return the flag without its first group if the shorter name is unique, and otherwise the full flag."""
    _, _, bare = flag[2:].partition(".")
    return f"--{bare}" if by_name.get(bare) == [flag] else flag
