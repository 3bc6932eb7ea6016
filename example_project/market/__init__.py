"""The sellers' market: members list and buy items, and get mails about it.

============== =============================================================================================
``models``     Member and Item
``deals``      list, buy and end: everything that changes an item
``selling``    the three ways to let one of several buyers win
``tasks``      the mails, and the end of a sale: what the worker does
``contacts``   the address book: whom one wrote to last, then everybody
``sale_chats`` the group chat of each sale
``labels``     price labels from a printer that takes three sheets at a time
``counting``   who saw what
``outbox``     reads the mails that were sent
============== =============================================================================================
"""
