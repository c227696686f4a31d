"""What all adapters share that hold weights themselves: checkpoints, devices, loading, batching.

Nothing here imports torch or transformers when it is imported, and no adapter loads weights before
its first call: what the store can answer needs neither the packages' time nor a GPU.
"""
