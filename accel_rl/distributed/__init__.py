"""Distributed training: communicators, gradient synchronisation, process groups and locks."""
