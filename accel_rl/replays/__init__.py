"""Memory of past experience: a ring in which each frame is stored once, and the ways to draw from it."""
