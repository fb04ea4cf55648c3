"""Horovod as this project needs it: the released source, our patches to it, and what builds them."""
