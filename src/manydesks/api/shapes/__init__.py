"""What clients send and what they get: one file per noun. The OpenAPI document is made of these."""
