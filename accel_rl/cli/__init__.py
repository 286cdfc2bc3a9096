"""The commands of the console script, a file each; `main` finds them."""
