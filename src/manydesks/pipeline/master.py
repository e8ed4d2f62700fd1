"""What the name of a Spark master tells: where its executors are."""

from __future__ import annotations


def is_local(master: str) -> bool:
    """Whether driver and executors are one Java on this machine: `local`, `local[2]`, `local[*]`."""
    return master == "local" or master.startswith("local[")


def is_local_cluster(master: str) -> bool:
    """`local-cluster[workers,cores,MiB]`: a cluster played by processes of this machine, to try things on."""
    return master.startswith("local-cluster[")
