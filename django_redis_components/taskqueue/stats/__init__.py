"""Statistics of queues: depths, workers and poller, counters, histograms of wait and run times, and error groups."""
