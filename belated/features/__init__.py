"""Contexts as people have them: a JSON object becomes the numbers that a learner takes, the same on every machine.

kinds.py        one feature: a number, a boolean, an intercept
categories.py   texts: stated ones, or any, hashed
schema.py       all of them: from an object to its vector, or to the number of a combination
"""

from belated.features.categories import Category, Hashed
from belated.features.kinds import Boolean, Feature, Ignored, Intercept, Number
from belated.features.schema import Features

__all__ = ["Boolean", "Category", "Feature", "Features", "Hashed", "Ignored", "Intercept", "Number"]
