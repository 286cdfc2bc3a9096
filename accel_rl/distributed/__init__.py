"""Distributed training uses communicators, gradient synchronisation, process groups and locks."""
