"""Evaluates a finished model on a dataset."""
