"""Builds an image without a builder."""
