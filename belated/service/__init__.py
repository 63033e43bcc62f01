"""The decision service: the ledger over HTTP.

api.py       bodies of requests, and what they become in the ledger
app.py       the routes
desk.py      what they ask: all that has the ledger, and its clock
batch.py     requests that wait are served together, by one thread that writes
workers.py   several processes on one port: workers, and one writer
writer.py    the writer's process, which has the desk
remote.py    the desk as workers have it
wire.py      the messages between them
turns.py     who of them is next
limits.py    rates of tokens, and large requests in slices
connections.py  slow connections, and too many
guard.py     who may come in without a token
auth.py      bearer tokens
argv.py      passwords do not stay in the list of processes
metrics.py   what Prometheus reads
openapi.py   the description of the API, for programs and for people
warm.py      compiles an experiment's kernels in a process of its own
dashboard/   the page that people look at
server.py    runs it all
cli.py       the commands
commands.py  those that ask a running service
"""
