"""Pipelines that run as they stand, and the command they share."""
