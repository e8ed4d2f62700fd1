"""The office's own use of the pipeline: a run each night, or a watch that is kept alive, in a process beside it.

Nothing of Spark is imported here: what runs is the command that a person would call.
"""
