"""Tests of what a site tests with."""
