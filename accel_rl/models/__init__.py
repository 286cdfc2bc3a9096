"""The neural networks of this project. A network receives observations as they are stored (uint8 pictures, float
vectors), and scales them itself."""
