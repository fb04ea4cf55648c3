"""How processes speak: messages, channels, tokens, the layout of a model on the wire, membership of a job."""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its C core logs what is raised as an error anyway
