"""If a flag of CleanRL or Stable-Baselines3 is unknown, the error message names the corresponding flag of accel_rl."""

import pytest

from accel_rl.cli.main import main
from accel_rl.cli.train_command import TrainOptions
from accel_rl.settings.flags import flags_of, full_flag
from accel_rl.settings.hints import HINTS
from accel_rl.settings.train import TrainConfig, default_config
from accel_rl.text.errors import ConfigError

ALGORITHMS = ("ppo", "a2c", "dqn")
FLAGS = {name: flags_of(TrainConfig, default_config(name)) | flags_of(TrainOptions) for name in ALGORITHMS}


def answer(algorithm: str, flag: str) -> str:
    """Return the error message about the flag, or "" if the algorithm has this flag."""
    try:
        full_flag(flag.replace("_", "-"), FLAGS[algorithm])
    except ConfigError as e:
        return str(e)
    return ""


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("name", HINTS)
def test_one_line_names_a_flag_that_exists(algorithm, name):
    said = answer(algorithm, f"--{name}")
    if not said:  # There is no error if the algorithm has this flag, as dqn has --batch-size.
        return
    assert "\n" not in said and "nearest" not in said and said.startswith(f"unknown option --{name}: ")
    for word in said.split(": ", 1)[1].translate(str.maketrans(";,()", "    ")).split():
        if word.startswith("--") and word != "--env":  # `train` reads --env as --env.id
            full_flag(word, FLAGS[algorithm])


def test_every_flag_of_the_table_exists_in_some_algorithm():
    there = {flag for flags in FLAGS.values() for flag in flags}
    assert {answer.partition(", ")[0] for answers in HINTS.values() for answer in answers} <= there | {"-"}


@pytest.mark.parametrize(
    ("typed", "ppo", "a2c", "dqn"),
    [
        ("--lr", "use --learning-rate", "use --learning-rate", "use --learning-rate"),
        ("--learning_rate", "", "", ""),
        ("--n_steps", "use --horizon", "use --horizon", "use --n-step"),
        ("--num_steps", "use --horizon", "use --horizon", "use --horizon"),
        ("--num_envs", "use --envs", "use --envs", "use --envs"),
        ("--n_envs", "use --envs", "use --envs", "use --envs"),
        ("--total_timesteps", "use --env-steps", "use --env-steps", "use --env-steps"),
        ("--total-timesteps", "use --env-steps", "use --env-steps", "use --env-steps"),
        ("--num_rollout_workers", "use --workers", "use --workers", "use --workers"),
        ("--train_batch_size", "use --horizon", "use --horizon", "use --batch-size"),
        ("--batch_size", "use --minibatch", "one batch", ""),
        ("--n_epochs", "use --epochs", "one batch", "use --intensity"),
        ("--update_epochs", "use --epochs", "one batch", "use --intensity"),
        ("--num_minibatches", "use --minibatch", "one batch", "use --batch-size"),
        ("--ent_coef", "use --entropy-coefficient", "use --entropy-coefficient", "use --epsilon-final"),
        ("--vf_coef", "use --value-coefficient", "use --value-coefficient", "no such setting"),
        ("--clip_range", "use --clip", "no such setting", "no such setting"),
        ("--clip_coef", "use --clip", "no such setting", "no such setting"),
        ("--gae_lambda", "", "", "use --n-step"),
        ("--max_grad_norm", "use --clip-grad-norm", "use --clip-grad-norm", "use --clip-grad-norm"),
        ("--buffer_size", "no such setting", "no such setting", "use --replay.size"),
        ("--learning_starts", "no such setting", "no such setting", "use --replay.start"),
        ("--target_network_frequency", "no such setting", "no such setting", "use --target-interval"),
        ("--train_frequency", "no such setting", "no such setting", "use --intensity"),
        ("--exploration_fraction", "no such setting", "no such setting", "use --epsilon-steps"),
        ("--exploration_final_eps", "no such setting", "no such setting", "use --epsilon-final"),
        ("--env_id", "--game pong", "--game pong", "--game pong"),
        ("--track", "use --wandb", "use --wandb", "use --wandb"),
        ("--torch_deterministic", "--seed", "--seed", "--seed"),
        ("--cuda", "use --device", "use --device", "use --device"),
        ("--verbose", "--quiet prints only", "--quiet prints only", "--quiet prints only"),
        ("--hidden-size", "use --hidden", "use --hidden", "use --hidden"),
        ("--save-interval", "use --checkpoint.interval", "use --checkpoint.interval", "use --checkpoint.interval"),
        ("--num-env", "use --envs", "use --envs", "use --envs"),
        ("--name", "use --run-dir", "use --run-dir", "use --run-dir"),
        ("--resume", "accel-rl resume RUN", "accel-rl resume RUN", "accel-rl resume RUN"),
        ("--smooth", "means of the last", "means of the last", "means of the last"),
        ("--callbacks", "use --callback", "use --callback", "use --callback"),
        ("--logger", "use --sink", "use --sink", "use --sink"),
    ],
)
def test_what_is_said(typed, ppo, a2c, dqn):
    for algorithm, wanted in zip(ALGORITHMS, (ppo, a2c, dqn), strict=True):
        said = answer(algorithm, typed)
        assert wanted in said and bool(said) == bool(wanted), (algorithm, said)


def test_the_exit_code_is_2(capsys):
    assert main(["train", "ppo", "--game", "pong", "--lr", "1e-3"]) == 2
    assert capsys.readouterr().err == "accel-rl: unknown option --lr: use --learning-rate\n"
    assert main(["train", "ppo", "--game", "pong", "--no-torch-deterministic"]) == 2
    assert "equal bit for bit on a CPU" in capsys.readouterr().err


def test_other_programs_do_not_answer_with_flags_of_training():
    with pytest.raises(ConfigError, match="unknown option --lr; see --help"):
        full_flag("--lr", ["--seconds"])
