"""This package defines and checks the settings of a run. The module `accel_rl.config.train` has TrainConfig and
default_config."""
