"""This package contains the parts of a run that Ray starts. Only this package imports Ray (extra `cluster`)."""
