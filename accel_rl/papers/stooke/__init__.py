"""Stooke & Abbeel 2018 (arXiv:1803.02811) train with many simulators (section 5.3), large batches (section 5.4), and
many learners, synchronous or asynchronous (sections 4.2, 4.3 and 5.5). Each figure and table of the paper has a sweep:

    | accel-rl sweep stooke:figure_3 --out runs/figure_3
    | accel-rl report runs/figure_3

| in the paper | here |
|---|---|
| Figure 2: sampling on one GPU | `python -m experiments.sampling figure_2` |
| Table 1: sampling on eight | `table_1` |
| Figure 3: policy gradients | `figure_3`; rows of it: `a2c_scaling`, `a3c`, `ppo_scaling`, `appo` |
| Figure 4: Q-learning by batch size | `figure_4`; rows: `dqn_scaling`, `c51_scaling` |
| Figure 5: a whole machine for one run | `figure_5` |
| Figures 6 to 8: secondary learner | `figure_6`, `figure_7`, `figure_8`; all three: `secondary_learner` |
| Figure 9: optimizers | `figure_9`; the same: `optimizers` |
| Figures 10, 11, 12: more games | `figure_10`, `figure_11`, `figure_12` |
| Tables 2, 3: hours by number of GPUs | `table_2`, `table_3` |
| the same in several games | `a2c_ranks`, `ppo_ranks`, `a3c`, `appo`, `async_dqn` |
| section 5.3: scaling of the learning rate, warmup | `step_size_rules`, `step_size_warmup` |
| section 5.3: more than 200 simulators with a replay | `dqn_simulators` |

Each run requests the paper's number of GPUs. On a machine with fewer GPUs, the run's learners share GPUs. `--scale`
shortens each run, at full batch size. The command `accel-rl train stooke:a2c_scaling --game pong --envs 64` trains a
single run.
"""

from accel_rl.papers.stooke.algorithm_experiments import (
    a2c_ranks,
    a2c_scaling,
    a3c,
    appo,
    async_dqn,
    c51_scaling,
    dqn_scaling,
    dqn_simulators,
    optimizers,
    ppo_ranks,
    ppo_scaling,
    rainbow_512,
    secondary_learner,
    step_size_rules,
    step_size_warmup,
)
from accel_rl.papers.stooke.figure_experiments import (
    figure_3,
    figure_4,
    figure_5,
    figure_6,
    figure_7,
    figure_8,
    figure_9,
    figure_10,
    figure_11,
    figure_12,
    variant,
)
from accel_rl.papers.stooke.table_experiments import table_1, table_2, table_3

REPORT = "accel_rl.papers.stooke.stooke_tables"
__all__ = [
    "a2c_ranks",
    "a2c_scaling",
    "a3c",
    "appo",
    "async_dqn",
    "c51_scaling",
    "dqn_scaling",
    "dqn_simulators",
    "figure_3",
    "figure_4",
    "figure_5",
    "figure_6",
    "figure_7",
    "figure_8",
    "figure_9",
    "figure_10",
    "figure_11",
    "figure_12",
    "optimizers",
    "ppo_ranks",
    "ppo_scaling",
    "rainbow_512",
    "secondary_learner",
    "step_size_rules",
    "step_size_warmup",
    "table_1",
    "table_2",
    "table_3",
    "variant",
]
