"""The process that trains: it leases shards, feeds their records to the model, and reports on them."""
