"""The credential proxy: desks call models through it and never see a key."""
