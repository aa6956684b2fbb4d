"""Renders what the records say: the workspace's README, each version's artifacts, the final report. Restates no
figure by hand."""
