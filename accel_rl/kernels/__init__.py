"""Compiled CPU kernels behind one dispatch. If they are not built, torch computes the same results."""
