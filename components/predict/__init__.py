"""Predicts for each record of a dataset."""
