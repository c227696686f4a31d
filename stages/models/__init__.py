"""All that leaves the process or holds weights: adapters by kind, and the store of replies."""
