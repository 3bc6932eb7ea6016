"""Tests of the testing tools."""
