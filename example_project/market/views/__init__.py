"""The pages: the market and its items, the user's own items, chats, messages, mails."""
