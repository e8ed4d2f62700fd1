"""Pure values, parsers, decisions and state machines: the standard library only, no I/O."""
