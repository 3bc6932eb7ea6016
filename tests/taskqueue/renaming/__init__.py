"""An app whose task has another name in the next version of the code, for commands in child processes."""
