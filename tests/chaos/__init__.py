"""The chaos program disturbs small training runs by random faults, and checks the files and processes that the runs
leave."""
