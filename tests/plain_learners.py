"""A plain learner that several tests use."""


class Scribe:
    """A plain learner whose next action depends on everything that happened to it."""

    def __init__(self, actions=3):
        self.actions = actions
        self.t = 0
        self.past = []

    def predict(self, context=None):
        self.t += 1
        return (self.t + hash(tuple(self.past))) % self.actions, 1.0 / self.actions

    def update(self, context, action, probability, feedback):
        self.past.append((action, probability, feedback))


def scribe():
    return Scribe()
