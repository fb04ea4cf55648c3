"""Converts a dataset to RecordIO."""
