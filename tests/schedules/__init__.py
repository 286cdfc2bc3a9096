"""Simulates several processes of accel_rl in one process and in virtual time. A seed determines the order of the
processes' steps."""
