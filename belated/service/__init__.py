"""The decision service: the ledger over HTTP.

api.py       bodies of requests, and what they become in the ledger
app.py       the routes
batch.py     requests that wait are served together, by one thread that writes
auth.py      bearer tokens
metrics.py   what Prometheus reads
openapi.py   the description of the API, for programs and for people
warm.py      compiles an experiment's kernels in a process of its own
dashboard/   the page that people look at
server.py    runs it all
cli.py       the commands
"""
