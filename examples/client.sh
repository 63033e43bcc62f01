#!/bin/sh
# The belated service from a shell. Made from its OpenAPI text by tools/other_languages.py.
#   URL=http://127.0.0.1:8000 TOKEN=belated_... sh client.sh
set -eu
URL="${URL:-http://127.0.0.1:8000}"
ask() { # METHOD PATH [BODY]
    curl --silent --show-error --request "$1" ${TOKEN:+--header "Authorization: Bearer $TOKEN"} \
        ${3:+--header "content-type: application/json" --data "$3"} --write-out '\n%{http_code}\n' "$URL$2"
}

# Create an experiment. The forecaster and its learner are those of `belated catalog`; the learner takes its number of
# actions from the list of names. Decisions expire after expiry_seconds (never if it is left out): with on_expiry
# 'drop' nothing is learned, with a number that reward is learned, which biases what is learned. With `features`
# contexts are objects, and a learner takes its number of features from them.
ask POST '/v1/experiments' '{"name": "ads", "actions": ["a", "b", "c"], "forecaster": {"name": "bold", "learner": {"name": "exp3"}}, "reward_range": [0, 1], "expiry_seconds": 3600, "on_expiry": "drop"}'

# All experiments.
ask GET '/v1/experiments'

# One experiment.
ask GET '/v1/experiments/ads'

# Change the rules of an experiment; what is left out stays. Decisions that are open keep the time when they expire;
# on_expiry holds for all that expire from now on.
ask PATCH '/v1/experiments/ads' '{"expiry_seconds": 7200, "on_expiry": "drop", "limits": {"outstanding": 1000}, "retention_seconds": null}'

# Decide now. With an Idempotency-Key (kept for 24 hours) asking again gives the same answer. `count` or `contexts`
# ask for many at once; `allowed` names the actions that are eligible right now. A context is a list of numbers; where
# the experiment states its features, an object with their names as keys.
ask POST '/v1/experiments/ads/decisions' '{}'

# A decision as it is now, with its feedback if there is any.
ticket=$(ask POST /v1/experiments/ads/decisions '{}' | sed -n 's/.*"ticket":"\([0-9a-f]*\)".*/\1/p')
ask GET '/v1/experiments/ads/decisions/'"$ticket"''

# Learn when the feedback comes, in any order: one, or a list, which always answers 200 with a status for each. The
# same value again is a duplicate and changes nothing.
ticket=$(ask POST /v1/experiments/ads/decisions '{}' | sed -n 's/.*"ticket":"\([0-9a-f]*\)".*/\1/p')
ask POST '/v1/experiments/ads/feedback' '{"ticket": "'"$ticket"'", "value": 1.0}'

# The decision was never shown: its instance is free again and nothing is learned. One, or a list.
ticket=$(ask POST /v1/experiments/ads/decisions '{}' | sed -n 's/.*"ticket":"\([0-9a-f]*\)".*/\1/p')
ask POST '/v1/experiments/ads/cancellations' '{"ticket": "'"$ticket"'"}'

# An action is retired and a new one takes its number, unknown in every state. Feedback for open decisions of the old
# one is recorded and not learned. Not every learner can do it.
ask POST '/v1/experiments/ads/replacements' '{"action": "a", "new": "d"}'

# One more action, with the next number, unknown in every state. Open decisions stay as they are. Not every learner
# can do it.
ask POST '/v1/experiments/ads/actions' '{"name": "e"}'

# No more decisions; open ones may still have feedback.
ask POST '/v1/experiments/ads/archive'

# Decisions again, after an archive.
ask POST '/v1/experiments/ads/unarchive'

# Counts, the peak, rewards with intervals, delays and their quantiles, queues, how they went over time, the price of
# delay from the theorems, and warnings where theory is bent.
ask GET '/v1/experiments/ads/statistics'

# All experiments with their most important statistics, as the dashboard shows them; and the processes that write to
# the database, which a token for some experiments is not told of.
ask GET '/v1/overview'

# Who did what: the last `limit` lines, newest first, of who created, changed and deleted experiments, made tokens, or
# came with a wrong one. It needs a token for all experiments.
ask GET '/v1/log'

# Numbers for Prometheus. Requests, batches, outcomes and what waits are those of this machine, and sum over machines;
# belated_experiment_decisions_total and the like come from the database and are the same on all. belated_database_up
# is 0 where the database does not answer.
ask GET '/metrics'

# Whether the process is alive, whatever the database does.
ask GET '/health'

# Whether it can do its work: the database answers and takes writes.
ask GET '/ready'

# Delete an experiment with all its data: decisions, feedback, events, states, statistics. It is gone at once and
# cannot be undone; the answer comes when its data is gone too.
ask DELETE '/v1/experiments/ads'
