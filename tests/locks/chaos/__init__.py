"""Histories of locks under faults, and the proof that nothing forbidden is in them."""
