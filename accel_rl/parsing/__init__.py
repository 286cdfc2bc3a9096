"""The command line: arguments, and their help."""
