"""Models behind HTTP APIs: one loop, three wires. Imports nothing: the descriptors beside this folder stay light."""
