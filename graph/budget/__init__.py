"""What a run may take: money and time set aside, settled, and estimated ahead."""
