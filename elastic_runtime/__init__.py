"""Elastic deep learning: a job whose workers may come and go while no record is lost."""

__version__ = "1.0.0.dev0"
