"""`python -m elastic_runtime` is the `elasticdl` command."""

from elastic_runtime.cli.main import main

main()
