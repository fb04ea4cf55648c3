"""The `elasticdl` command. Each part is imported when it is used, so that `--help` is there at once."""
