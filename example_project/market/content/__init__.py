"""What the market is filled with: members' names, things to sell, and what a month of visits looks like."""
