"""Samplers collect rollouts. Modules of this package must not import torch at the top, because worker processes, which
do not need torch, import this package."""
