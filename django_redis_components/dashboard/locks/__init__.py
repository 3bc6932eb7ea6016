"""The page of locks and semaphores: scan, look-up, release."""
