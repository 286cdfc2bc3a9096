"""Training on Ray clusters. No other package of accel_rl imports Ray, which `pip install 'accel_rl[cluster]'`
installs."""
