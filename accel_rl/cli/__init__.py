"""Commands of the console script, one module each; `main` dispatches to them."""
