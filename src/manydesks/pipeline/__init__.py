"""The history of the office as tables: Spark reads the store's `export_*` views and writes the lake.

Nothing here is imported by the living office; the command line loads it on use.
"""
