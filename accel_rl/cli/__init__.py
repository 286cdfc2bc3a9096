"""Each command of the console script is one module, to which `main` dispatches."""
