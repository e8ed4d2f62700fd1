"""How the program `claude` is driven; `providers/claude.py` announces it."""
