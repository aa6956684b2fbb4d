"""What every command line shares: its parser, sentences for bad settings, signals, and how numbers are written."""
