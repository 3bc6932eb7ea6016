"""Data of each component as a release has written them, and the tests that read them with the code of today.

The JSON files are written by ``python -m tests.stored_data.record`` and are not written again once a release has their
format: they stand for the data of sites. A new format gets a separate directory, and both are read.
"""
