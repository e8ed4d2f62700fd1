"""One file per tool; `base.py` is the contract, `registry.py` finds them."""
