"""The lock of a member, on a given connection."""

import psycopg

_ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(hashtext('rec.member'), hashint8(%(member_id)s))"


def lock_member(connection: psycopg.Connection, member_id: int) -> None:
    """Nobody else reads what the member did, stores a set, opts the member out or erases them until the end
    of this transaction.

    The first statement of the transaction, so that it holds nothing that the one before it may need; what
    is read afterwards is what the one before has left.
    """
    connection.execute(_ONE_AT_A_TIME, {"member_id": member_id})
