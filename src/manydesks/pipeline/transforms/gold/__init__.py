"""From silver to gold: pure functions, one subject per file. They get whole days and know nothing of what is new."""
