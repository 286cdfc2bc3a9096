"""Random faults of small training runs, and invariants of the files and processes that the runs leave."""
