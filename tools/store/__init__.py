"""Storage of evidence: content-addressed records and blobs, and the workspace's git repository."""
