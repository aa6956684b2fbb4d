"""The lift: code that Inductor generated for a reference, as one standalone kernel with the contract of a task."""
