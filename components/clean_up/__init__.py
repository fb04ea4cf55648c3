"""Ends what is left of a job."""
