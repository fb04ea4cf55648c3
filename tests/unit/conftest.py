"""Shared by all unit tests."""

from hypothesis import settings

# How long an example takes is the machine's affair: a busy one stands still for longer than any limit here.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
