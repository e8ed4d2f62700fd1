"""What a desk costs, and how many of them go at once."""
