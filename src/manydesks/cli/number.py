"""The number of a row, on the command line."""

from __future__ import annotations

import click

#: rows are counted in 64 bits; a larger number could not even be asked for
NUMBER = click.IntRange(0, 2**63 - 1)
