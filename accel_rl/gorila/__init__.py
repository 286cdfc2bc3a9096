"""This package trains on Ray clusters. No other package of accel_rl imports Ray (extra `cluster`)."""
