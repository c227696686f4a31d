"""The protocol: modules are stages, packages are the rooms that stages use."""
