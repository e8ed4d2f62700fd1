"""The kit for tests of whatever is built on ManyDesks: a manual clock, a mailbox without files."""
