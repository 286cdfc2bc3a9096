"""The settings of a run. `accel_rl.config.train` has TrainConfig and default_config."""
