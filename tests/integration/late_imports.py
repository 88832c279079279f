"""What runs that ask models import only when they need it, for processes that fork many of them."""


def import_all() -> None:
    """Before the forks, once for all."""
    import numpy  # noqa: F401
    import openai  # noqa: F401
    import pgvector.psycopg  # noqa: F401
