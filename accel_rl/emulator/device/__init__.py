"""An Atari emulator made of GPU kernels, which can also be compiled for CPUs."""
