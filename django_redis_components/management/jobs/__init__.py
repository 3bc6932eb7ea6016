"""What only the commands that process data use: files, access logs, and indexes that are rebuilt."""
