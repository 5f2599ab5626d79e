# SPDX-License-Identifier: Apache-2.0
"""Checks a cann-bench submission the way its evaluator would, and reports every breach of a rule at once."""

from .checker import Options, SubmissionReport, check_submission
from .environment import SubmissionError
from .rules import RULES, Rule, Violation

__all__ = ["RULES", "Options", "Rule", "SubmissionError", "SubmissionReport", "Violation", "check_submission"]
