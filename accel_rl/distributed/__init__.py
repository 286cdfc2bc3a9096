"""Ranks: communicators, gradient synchronisation, process groups and locks."""
