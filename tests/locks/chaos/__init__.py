"""Lock histories recorded under faults, and the checks that they satisfy."""
