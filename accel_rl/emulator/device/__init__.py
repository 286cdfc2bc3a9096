"""The emulator on a device has kernels for GPUs, and a build of the same kernels for the host."""
