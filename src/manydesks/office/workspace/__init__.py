"""What a new agent finds in its folder; the texts beside this file are copied once, and are the owner's then."""
