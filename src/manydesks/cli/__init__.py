"""The command line: shows and asks, decides nothing."""
