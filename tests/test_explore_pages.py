r"""What an explorable writes into pages and notebooks, and what its commands say: what mutation testing found untested."""
