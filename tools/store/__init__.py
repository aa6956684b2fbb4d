"""Where evidence is kept: content-addressed records and blobs, and the workspace's git."""
