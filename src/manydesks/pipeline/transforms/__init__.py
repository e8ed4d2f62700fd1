"""Pure functions from rows to rows, one subject per file."""
