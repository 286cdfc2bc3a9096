"""The names and types of the settings of `accel_rl.train` and `Run.resume`, for editors and type checkers.

Written by docs/tools/settings_types.py from the classes of settings. The settings are those of all algorithms of this
project; the settings of a user's algorithm are given by its Config, `accel_rl.train(MyPPO.Config(...), ...)`.
"""

from collections.abc import Sequence
from typing import Literal, TypedDict


class TrainSettings(TypedDict, total=False):
    actors: float
    address: str
    algo__atoms: float
    algo__batch_size: float
    algo__batches: float
    algo__c_clip: float
    algo__clip: float
    algo__clip_grad_norm: float
    algo__clip_schedule: Literal["constant", "linear"]
    algo__double: bool
    algo__dueling: bool
    algo__entropy_coefficient: float
    algo__epochs: float
    algo__epsilon: float
    algo__epsilon_evaluation: float
    algo__epsilon_final: float
    algo__epsilon_spread: float
    algo__epsilon_steps: float | None
    algo__epsilon_unit: Literal["env-steps", "updates"]
    algo__exploration: float
    algo__gae_lambda: float
    algo__gamma: float
    algo__hidden: float
    algo__huber: float
    algo__intensity: float
    algo__layer_norm: Literal["none", "before", "after"]
    algo__learning_rate: float
    algo__learning_rate_scaling: Literal["sqrt", "linear", "none"]
    algo__learning_rate_schedule: Literal["constant", "linear"]
    algo__lstm: float
    algo__max_learning_rate: float
    algo__minibatch: float
    algo__n_step: float
    algo__network: str
    algo__noisy: bool
    algo__normalize_advantage: Literal["minibatch", "rollout", "none"]
    algo__optimizer: str
    algo__optimizer_eps: float
    algo__reference_batch: float
    algo__replay__alpha: float
    algo__replay__beta: float
    algo__replay__beta_final: float
    algo__replay__device: str
    algo__replay__prioritized: bool
    algo__replay__replacement: bool
    algo__replay__size: float
    algo__replay__start: float
    algo__reward_clip: float | None
    algo__rho_clip: float
    algo__rmsprop_alpha: float
    algo__target_interval: float
    algo__target_kl: float
    algo__target_unit: Literal["env-steps", "updates"]
    algo__v_max: float
    algo__v_min: float
    algo__value_clip: float
    algo__value_coefficient: float
    algo__warmup: float
    algo__window: float
    alpha: float
    atoms: float
    backend: str
    batch: float
    batch_size: float
    batches: float
    beta: float
    beta_final: float
    bundle_cpus: float
    bundle_gpus: float
    bundles: float
    c_clip: float
    callback: Sequence[str]
    capture: bool
    capture_updates: bool
    checkpoint__interval: float | None
    checkpoint__keep: float
    chunks: float
    clip: float
    clip_grad_norm: float
    clip_schedule: Literal["constant", "linear"]
    cluster: Literal["none", "gorila", "ray"]
    cores: Sequence[float] | None
    decorrelation_steps: float
    device: str
    difficulty: float | None
    distributed__chunks: float
    distributed__gpus: str
    distributed__hash_interval: float
    distributed__local_updates: float
    distributed__max_restarts: float
    distributed__pull_steps: float
    distributed__ranks: float | None
    distributed__timeout_s: float
    distributed__update: str
    distributed__warmup_updates: float
    double: bool
    dueling: bool
    engine: str
    entropy_coefficient: float
    env__backend: str
    env__difficulty: float | None
    env__fire_reset: str | None
    env__frame: str | None
    env__frame_skip: float | None
    env__full_action_set: bool | None
    env__game: str
    env__id: str
    env__kwargs: str
    env__life_loss_ends_return: bool | None
    env__max_episode_steps: float | None
    env__max_evaluation_steps: float | None
    env__mode: float | None
    env__noop_max: float | None
    env__noop_min: float | None
    env__protocol: str
    env__randomness: str
    env__repeat_action_probability: float | None
    env__stack: float | None
    env__translate: str
    env_steps: float
    envs: float
    episodes: float
    epochs: float
    epsilon: float
    epsilon_evaluation: float
    epsilon_final: float
    epsilon_spread: float
    epsilon_steps: float | None
    epsilon_unit: Literal["env-steps", "updates"]
    evaluation__episodes: float
    evaluation__greedy: bool
    evaluation__interval: float
    evaluation__max_episode_steps: float
    evaluation__parallel: float
    evaluation__starts: Literal["noop", "saved"]
    evaluation__starts_file: str
    evaluation__steps: float
    exploration: float
    fire_reset: str | None
    frame: str | None
    frame_skip: float | None
    full_action_set: bool | None
    gae_lambda: float
    game: str
    gamma: float
    gorila__actors: float
    gorila__bundle_cpus: float
    gorila__bundle_gpus: float
    gorila__bundles: float
    gorila__in_flight: float
    gorila__learners: float
    gorila__max_delay: float | None
    gorila__min_bundles: float
    gorila__outlier_deviations: float
    gorila__replay: Literal["local", "global"]
    gorila__shards: float
    gorila__snapshot_updates: float
    gorila__timeout_s: float
    gorila__updates: float | None
    gpus: str
    greedy: bool
    groups: float | None
    hash_interval: float
    hidden: float
    horizon: float | None
    huber: float
    id: str
    in_flight: float
    inference_per_worker: bool
    init_only: str
    intensity: float
    keep: float
    kwargs: str
    layer_norm: Literal["none", "before", "after"]
    learners: float
    learning_rate: float
    learning_rate_scaling: Literal["sqrt", "linear", "none"]
    learning_rate_schedule: Literal["constant", "linear"]
    life_loss_ends_return: bool | None
    local_updates: float
    log__interval: float | None
    log__norms: bool
    log__tensorboard: bool
    log__window: float
    lstm: float
    max_delay: float | None
    max_evaluation_steps: float | None
    max_learning_rate: float
    max_restarts: float
    max_skipped_updates: float
    min_bundles: float
    minibatch: float
    mode: float | None
    n_step: float
    network: str
    noisy: bool
    noop_max: float | None
    noop_min: float | None
    normalize_advantage: Literal["minibatch", "rollout", "none"]
    norms: bool
    on_error: Literal["stop", "restart"]
    optimizer: str
    optimizer_eps: float
    outlier_deviations: float
    parallel: float
    precision: Literal["float32", "tfloat32", "bfloat16"]
    preset: str
    prioritized: bool
    protocol: str
    pull_steps: float
    randomness: str
    ranks: float | None
    rate: float
    reference_batch: float
    repeat_action_probability: float | None
    replacement: bool
    replay: Literal["local", "global"]
    reset: Literal["immediate", "wait", "swap", "cached"]
    reward_clip: float | None
    rho_clip: float
    rmsprop_alpha: float
    sampler__capture: bool
    sampler__cores: Sequence[float] | None
    sampler__decorrelation_steps: float
    sampler__engine: str
    sampler__envs: float
    sampler__groups: float | None
    sampler__horizon: float | None
    sampler__inference_per_worker: bool
    sampler__on_error: Literal["stop", "restart"]
    sampler__reset: Literal["immediate", "wait", "swap", "cached"]
    sampler__start_timeout_s: float
    sampler__timeout_s: float
    sampler__workers: float | None
    schedule: str
    schedule_steps: float | None
    secondary__batch: float
    secondary__rate: float
    seed: float
    shards: float
    sink: Sequence[str]
    size: float
    snapshot_updates: float
    stack: float | None
    start: float
    start_timeout_s: float
    starts: Literal["noop", "saved"]
    starts_file: str
    steps: float
    strict: bool
    target_interval: float
    target_kl: float
    target_unit: Literal["env-steps", "updates"]
    tensorboard: bool
    torch_threads: float | None
    translate: str
    update: str
    updates: float | None
    v_max: float
    v_min: float
    value_clip: float
    value_coefficient: float
    wandb: Literal["disabled", "offline", "online"]
    wandb_project: str
    warmup: float
    warmup_updates: float
    window: float
    workers: float | None


class ResumeSettings(TypedDict, total=False):
    algo__learning_rate: float
    algo__learning_rate_schedule: Literal["constant", "linear"]
    callback: Sequence[str]
    checkpoint: str
    checkpoint__interval: float | None
    checkpoint__keep: float
    cores: Sequence[float] | None
    device: str
    distributed__timeout_s: float
    engine: Literal["", "workers", "in-process", "device"]
    episodes: float
    evaluation__episodes: float
    evaluation__interval: float
    evaluation__steps: float
    keep: float
    learning_rate: float
    learning_rate_schedule: Literal["constant", "linear"]
    log__interval: float | None
    log__norms: bool
    log__tensorboard: bool
    max_skipped_updates: float
    norms: bool
    sampler__start_timeout_s: float
    sampler__timeout_s: float
    schedule_steps: float | None
    sink: Sequence[str]
    start_timeout_s: float
    steps: float
    strict: bool
    tensorboard: bool
    torch_threads: float | None
    trust: bool
    wandb: Literal["disabled", "offline", "online"]
    wandb_project: str
