"""TensorBoard and Weights & Biases group metrics by tags. The tags are those of CleanRL, so that CleanRL's tools find
the metrics."""

TAGS = {
    "score": "charts/episodic_return",
    "length": "charts/episodic_length",
    "steps_per_s": "charts/SPS",
    "learning_rate": "charts/learning_rate",
    "epsilon": "charts/epsilon",
    "clip": "charts/clip",
    "beta": "charts/beta",
    "target_copies": "charts/target_copies",
    "acting_age": "charts/acting_age",
    "score_std": "charts/episodic_return_std",
    "new_score": "charts/new_episodic_return",
    "episodes": "charts/episodes",
    "updates": "charts/updates",
    "skipped_updates": "charts/skipped_updates",
    "eval_score": "eval/episodic_return",
    "eval_score_std": "eval/episodic_return_std",
    "eval_episodes": "eval/episodes",
    "eval_steps": "eval/env_steps",
    "loss": "losses/loss",
    "policy_loss": "losses/policy_loss",
    "value_loss": "losses/value_loss",
    "entropy": "losses/entropy",
    "kl": "losses/approx_kl",
    "clipped": "losses/clipfrac",
    "explained_variance": "losses/explained_variance",
    "value": "losses/values",
    "q": "losses/q_values",
    "td_error": "losses/td_error",
    "grad_norm": "losses/grad_norm",
    "param_norm": "losses/param_norm",
    "wall_s": "time/wall_s",
    "paused_s": "time/paused_s",
    "cpu_s": "time/cpu_s",
    "joules": "time/joules",
    "gpu_joules": "time/gpu_joules",
    "sync_s": "time/sync_s",
    "lock_wait_s": "time/lock_wait_s",
}
"""Maps each column of metrics.csv to its tag."""
OTHER = "metrics"
"""Group of all other columns, such as the metrics of a user's algorithm or callback."""


def tag(column: str) -> str:
    """The tag of a column of metrics.csv. A column's name with a slash, such as info/lives, is also the tag."""
    return TAGS.get(column) or (column if "/" in column else f"{OTHER}/{column}")
