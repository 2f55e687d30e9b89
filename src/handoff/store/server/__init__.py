"""What only Postgres needs: connections that are lent, locks that are no rows, verbs in one call."""
