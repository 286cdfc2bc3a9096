"""Neural networks. A network receives observations as they are stored (uint8 images or float vectors), and scales the
observations itself."""
