"""Named jobs over the lake, each incremental and idempotent: running one twice changes nothing."""
