"""The user's model: loading its module, laying its variables out flat, exporting it."""
