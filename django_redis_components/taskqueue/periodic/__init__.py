"""Tasks that the poller sends at certain times: `@every` and `@cron`."""
