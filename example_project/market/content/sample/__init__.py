"""Sample data for the first start of the demo, so that every page has something to show. Nothing of it has happened.

It is written once, to an empty database and an empty Redis (`history.write`), in the formats in which the components
store their data. The tasks of the last hour have the worker ``sample-data``.

============  ==========================================================================================
``history``   writes everything, unless there are data
``counters``  counters of finished tasks: three hours by minute, a day by ten minutes, a month by day
``finished``  tasks that have run, succeeded and failed, in the last hour
``scene``     chats, searches, limits, files, locks, a flow, a schedule, incidents, changes by operators
============  ==========================================================================================
"""
