"""Channels: adapters to the places where people talk."""
