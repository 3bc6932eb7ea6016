"""The data of the market: names of members, items, and simulated visits."""
