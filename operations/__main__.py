"""`python -m operations`: the same as the script `granary`."""

from operations.command_line import run

if __name__ == "__main__":
    run()
