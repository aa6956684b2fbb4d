"""Inductor's generated code as one standalone kernel with our contract."""
