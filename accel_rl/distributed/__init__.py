"""This package contains the parts of distributed training: communicators, gradient synchronisation, process groups and
locks."""
