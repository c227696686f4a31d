"""Digits, colours and words: tables, figures and pages. Nothing is estimated here."""
