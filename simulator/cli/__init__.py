"""The `servecast` command: one file per command, heavy imports inside the functions."""
