"""The description of a job: every option once, with its type, default, help text and who takes it.

`JobSpec` is what all other rooms are given. The command line, `docs/options.md` and the pipeline components
are generated from it, and the tutorials' older names are mapped onto it.
"""
