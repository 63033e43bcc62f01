"""What the decision service stores, and how it changes. No HTTP here.

schema.py       the tables, and how older ones are brought up to date
store.py        the few set-based verbs that a database offers
sqlite.py       those verbs on SQLite
postgres.py     those verbs on PostgreSQL
arrays.py       many rows by one statement there
past.py         what is past its retention goes there, by days
database.py     opens either by its address
experiment.py   what an experiment is, and what it makes of feedback
contexts.py     contexts that are objects with stated features
player.py       a forecaster's rule over states: decide, learn, release, replace, grow
follow.py       an event of a log lived through again
replica.py      an experiment in memory, which follows its log
work.py         what one transaction does to an experiment, and all that it writes
ledger.py       a batch of requests becomes answers, in one transaction
requests.py     what a batch asks of one experiment
faults.py       which experiments fail, and rest for a while
migrate.py      an earlier database is brought up to date
parts.py        what of a request is on record under its key
changes.py      other rules for an experiment
erase.py        what belonged to a deleted one goes
access.py       the log of who did what
replicas.py     which processes write, and how far behind they were
files.py        files that are nobody else's business
fold.py         statistics of one experiment, folded from its events
folder.py       those of all, in memory and saved
price.py        the price of delay so far, from the theorems
advice.py       where theory is bent, in words
upkeep.py       retention, and states of earlier versions
verify.py       every state again from its events
export.py       every decision as a table
"""
