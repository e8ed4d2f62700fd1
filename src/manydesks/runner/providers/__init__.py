"""One file per provider; `base.py` is the contract, `registry.py` finds them."""
