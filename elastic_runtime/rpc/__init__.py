"""How processes speak: messages, channels, tokens, the layout of a model on the wire, membership of a job."""
