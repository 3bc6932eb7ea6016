"""The page of one queue: depths, throughput, wait and run times, errors."""
