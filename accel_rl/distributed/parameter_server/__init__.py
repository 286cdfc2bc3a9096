"""A sharded parameter server (Nair et al. 2015, section 4): shards, and learners that push gradients to them."""
