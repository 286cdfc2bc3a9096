from accel_rl.cli.main import script

script()
