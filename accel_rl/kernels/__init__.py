"""Compiled CPU kernels, or torch operations with the same results if kernels are not compiled."""
