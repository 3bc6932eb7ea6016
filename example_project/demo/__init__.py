"""``manage.py demo``: a server, three child processes, their logs, and a graceful shutdown.

=============  =========================================================================
``console``    writes the output of all processes to one terminal, with prefixes
``processes``  starts, reads and stops a child process
``supervisor`` reports exited child processes and restarts them
``run``        runs the whole demo
=============  =========================================================================
"""
