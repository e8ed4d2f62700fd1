"""What a surface may ask of the office, one file per noun."""
