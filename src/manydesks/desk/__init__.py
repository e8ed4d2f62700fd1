"""The host's side of the desk: who sits there, how they are called, and how they are ended."""
