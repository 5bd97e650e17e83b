"""The connection of this thread to the JVM of its Spark session."""

from __future__ import annotations

from pyspark.sql import SparkSession


def leave_connection() -> None:
    """Let the next call to the JVM open another connection, if there is one.

    A call that was interrupted, by a test's timeout for example, has left its answer in the
    connection; each later call would read the answer to the one before.
    """
    session = SparkSession._instantiatedSession
    if session is None:
        return
    connection = session.sparkContext._gateway._gateway_client.get_thread_connection()
    if connection:
        connection.close()
    # The new connection is another thread there, which knows no session yet.
    known = SparkSession._get_j_spark_session_class(session._jvm)
    known.setActiveSession(session._jsparkSession)
