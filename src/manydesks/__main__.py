"""`python -m manydesks` is the command `manydesks`."""

from __future__ import annotations

from manydesks.cli.main import main

if __name__ == "__main__":
    main()
