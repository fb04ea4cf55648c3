"""`python -m elastic_runtime.ps`: one parameter server."""

import sys

from elastic_runtime.ps.app import main

sys.exit(main())
