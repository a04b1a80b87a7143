"""Tests of surgeon and of the rules that ship with it."""

import os

os.environ["SURGEON_STRICT_SHAPES"] = "1"  # a shape rule that raises is a bug: users do not meet it, but we do
os.environ["SURGEON_CACHE"] = "off"  # no test or bench passes thanks to a proof of an earlier run
