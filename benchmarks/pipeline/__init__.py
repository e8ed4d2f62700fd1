"""The pipeline, measured: a history of millions of events goes through it."""
