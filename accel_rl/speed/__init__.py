"""Speed as a layer: captured acting and captured updates, which compute what the plain run computes."""
