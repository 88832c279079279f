"""What goes wrong in the local stack, told so that the reader knows what to do."""


class StackError(Exception):
    """The message names the service, where to look and the remedy."""
