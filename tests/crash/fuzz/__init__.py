"""What nobody should send, and files that nobody should leave: drawn at random from a seed."""
