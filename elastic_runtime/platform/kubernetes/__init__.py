"""Jobs on Kubernetes: what their objects are, how the API is asked, and what becomes of their pods.

This room alone imports the package `kubernetes`, which takes half a second: others import this room where a
cluster is needed, and not before.
"""
