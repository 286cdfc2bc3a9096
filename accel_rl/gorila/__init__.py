"""Parts of a run that Ray starts. Ray (extra `cluster`) is imported only in this folder."""
