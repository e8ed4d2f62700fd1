"""Where a desk's processes run: one contract, and how tightly each member holds them."""
