"""Ray starts these parts of a run. Ray (extra `cluster`) is imported only in this folder."""
