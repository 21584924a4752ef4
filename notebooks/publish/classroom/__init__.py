"""The course on a server for a class: a configuration of JupyterHub, and what it starts."""
