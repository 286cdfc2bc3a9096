"""The Atari emulator for GPUs, whose kernels can also be compiled for CPUs."""
