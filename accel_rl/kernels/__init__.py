"""Compiled CPU kernels are behind one dispatch. If the kernels are not compiled, torch computes the same results."""
