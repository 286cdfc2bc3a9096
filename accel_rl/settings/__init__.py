"""The settings of a run. TrainConfig and default_config are in `accel_rl.settings.train`."""
