"""This package trains on Ray clusters, and is the only package that imports Ray (extra `cluster`)."""
