"""A site whose tasks fork."""
