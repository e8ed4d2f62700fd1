"""What runs at the desk: the poll loop, the providers that answer, the tools that agents call."""
