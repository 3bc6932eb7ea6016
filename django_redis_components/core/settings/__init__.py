"""The setting `REDIS_COMPONENTS`: the sections and their defaults, the checks of values, and the current values."""
