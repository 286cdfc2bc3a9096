"""Networks. An observation comes as it is stored (uint8 pictures, float vectors); scaling is the network's."""
