"""What all adapters over HTTP share: secrets, patience, rate, reading of errors, image parts.

An adapter says what to send and how to read the reply; everything that can go wrong in between is
here. A call ends in one of three ways: a reply; a CallError, which goes on that row's record; or a
UserError, which ends the stage because the next call would fare no better (no key, no money, no
such model, no server). What was answered until then stays in the store.
"""
