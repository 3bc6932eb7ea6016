"""The pages: the market and its items, one's own things, letters, mails."""
