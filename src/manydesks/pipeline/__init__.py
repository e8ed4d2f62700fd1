"""The history of the office as tables: Spark reads the store's `export_*` views and writes the lake.

Nothing here is imported by the living office; the command line loads it on use.
"""

import os

# delta-rs would write to stderr what it tries on its way; whether it got there, its errors say. Read when it is loaded
os.environ.setdefault("RUST_LOG", "off")
