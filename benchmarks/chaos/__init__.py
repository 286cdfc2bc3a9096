"""Disturbs small training runs by random faults, and checks what the runs leave."""
