"""The groups of `manage.py redis`: each is the module or package of its name. `groups` lists them."""
