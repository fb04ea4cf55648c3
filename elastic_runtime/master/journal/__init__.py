"""The master's journal: what was accepted, durable before it is answered.

At whatever moment a process or a machine dies, what is read again is a prefix of what was appended, and has
all that was committed. Where it is kept is a `Store`: a file, or what the platform offers.
"""

from elastic_runtime.master.journal.file import FileStore, discard, read_only
from elastic_runtime.master.journal.journal import Journal
from elastic_runtime.master.journal.rows import Row, Store, check, replay

__all__ = ["FileStore", "Journal", "Row", "Store", "check", "discard", "read_only", "replay"]
