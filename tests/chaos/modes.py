"""The training runs that tests/chaos disturbs, one for each way of training. A run takes a few seconds."""

from dataclasses import dataclass

ENV_STEPS = 1_600
CHECKPOINT_STEPS = 400
ROW_STEPS = 80
ROWS = ENV_STEPS // ROW_STEPS
COMMON = (
    *("--seed", "3", "--env-steps", str(ENV_STEPS), "--log.interval", str(ROW_STEPS)),
    *("--checkpoint.interval", str(CHECKPOINT_STEPS), "--decorrelation-steps", "0"),
)
EVALUATED = (
    *("--evaluation.interval", "320", "--evaluation.episodes", "2", "--evaluation.max-episode-steps", "40"),
    *("--callback", "SaveBest", "--callback", "tests.chaos.witness:Witness"),
)


@dataclass(frozen=True)
class Mode:
    """The command of a training run, and its properties."""

    arguments: str
    """Arguments after `accel-rl train`, without those of COMMON."""
    exact: bool = True
    """Whether a run that was stopped and resumed equals the undisturbed run bit for bit."""
    workers: int = 0
    """Number of worker processes per rank."""
    ranks: int = 1
    hosts: int = 1
    """Number of hosts, each with one rank under torchrun."""
    evaluated: bool = False
    """Whether the run evaluates between its checkpoints, and has callbacks."""
    sweep: bool = False
    """Whether the command trains the runs of a sweep, in the subfolders of its folder."""
    gorila: bool = False
    """Whether the run has a parameter server on Ray."""

    @property
    def saves_in_background(self) -> bool:
        """Whether training continues while a checkpoint is written: only without callbacks and without synchronous
        ranks."""
        return not (self.evaluated or self.gorila or (self.ranks > 1 and self.exact))

    def train(self, run: object, *more: str) -> list[str]:
        """Return the arguments with which accel-rl trains into the folder `run`."""
        if self.sweep:
            return ["sweep", *self.arguments.split(), "--out", str(run), *more]
        evaluation = EVALUATED if self.evaluated else ("--evaluation.interval", "0")
        return ["train", *self.arguments.split(), *COMMON, *evaluation, "--run-dir", str(run), *more]


ATARI = "--env.max-episode-steps 90 --network a3c --envs 8 --workers 2"
CARTPOLE = "--env CartPole-v1 --envs 4 --horizon 10"
REPLAY = "--batch-size 8 --replay.size 600 --replay.start 200"
MODES = {
    "ppo": Mode(f"ppo {CARTPOLE} --minibatch 20 --workers 2", workers=2, evaluated=True),
    "a2c": Mode(f"a2c --game pong {ATARI} --reset wait", workers=2),
    "dqn": Mode(f"dqn --game breakout {ATARI} {REPLAY} --intensity 0.5 --epsilon-steps 900", workers=2),
    "rainbow": Mode(
        f"rainbow --env CartPole-v1 --engine in-process --envs 8 {REPLAY} --intensity 0.5 --torch-threads 1",
        evaluated=True,
    ),
    "concurrent": Mode(
        "dqn --env CartPole-v1 --engine in-process --torch-threads 1 --envs 8 --schedule concurrent --horizon 4 "
        "--target-interval 160 --batch-size 16 --network a3c --intensity 2 --replay.size 1000 --replay.start 320"
    ),
    "lstm": Mode(f"a2c {CARTPOLE} --engine in-process --torch-threads 1 --lstm 16", evaluated=True),
    "device": Mode("a2c --game pong --env.max-episode-steps 90 --network a3c --envs 8 --engine device --device cpu"),
    "ranks": Mode(
        f"ppo {CARTPOLE} --minibatch 20 --workers 1 --ranks 2 --max-restarts 3", workers=1, ranks=2, evaluated=True
    ),
    "async": Mode(f"a2c {CARTPOLE} --workers 1 --ranks 2 --update async", exact=False, workers=1, ranks=2),
    "sweep": Mode("tests.chaos.sweep_faults:swept --gpus none", sweep=True),
    "gorila": Mode(
        "dqn --cluster gorila --bundles 2 --shards 2 --env CartPole-v1 --engine in-process --torch-threads 1 --envs 4 "
        "--network a3c --batch-size 8 --replay.size 2000 --replay.start 100 --snapshot-updates 20",
        exact=False,
        gorila=True,
    ),
    "hosts": Mode(f"ppo {CARTPOLE} --minibatch 20 --workers 1", workers=1, ranks=2, hosts=2),
}
