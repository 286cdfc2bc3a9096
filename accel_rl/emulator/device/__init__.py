"""The emulator on a device: kernels for GPUs, and their host build."""
