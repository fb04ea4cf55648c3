"""The process that leads a job: it decides who does what, keeps the journal, and starts and judges pods."""
