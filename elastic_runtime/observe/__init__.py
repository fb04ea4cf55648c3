"""What a job shows of itself: one stream of events in; log lines, metrics, summary and report out.

The master (or whoever runs a job) makes `events`, hands each to a `recorder.Recorder`, and reads all that
people are shown from its `history`. Nothing here decides anything about the job.
"""
