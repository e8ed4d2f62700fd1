"""The queue, beside its peers and beside a loop written by hand. `scripts/bench queue`."""
