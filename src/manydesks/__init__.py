"""ManyDesks: teams of specialised AI agents for a one-person company."""

__version__ = "0.1.0"
