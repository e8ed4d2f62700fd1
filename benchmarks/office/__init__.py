"""What the office costs as a whole, measured at the real host."""
