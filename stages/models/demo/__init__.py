"""The built-in world: what it can show, what is known about it, and how it is spoken of."""
