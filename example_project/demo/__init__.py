"""What ``manage.py demo`` is made of: a server, three processes, their logs, and an orderly end.

=============  =========================================================================
``console``    lines of several processes in one terminal, each with its prefix
``processes``  a child: started, read, stopped; nothing left behind however we end
``keeper``     keeps the children going and says so when one ended
``run``        the whole demo from the first line to the last
=============  =========================================================================
"""
