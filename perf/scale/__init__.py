"""Measures the pipeline and the reader on synthetic metadata of the whole dataset's size.

In: nothing. Out: rows of memory, requests and bytes, whose floors are bounds ("at most"). Each
measurement is a function of a module here, listed in `section.MEASUREMENTS`, and runs in a
process of its own.
"""
