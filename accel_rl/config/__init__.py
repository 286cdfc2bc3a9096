"""This package defines and checks the settings of a run. TrainConfig and default_config are in
`accel_rl.config.train`."""
