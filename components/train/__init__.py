"""Trains a model elastically."""
