"""Tools of the repository: servers for tests, demo and benchmarks; generators; measurements."""
