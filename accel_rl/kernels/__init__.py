"""Compiled CPU kernels behind one dispatch. Where they are not built, torch computes the same."""
