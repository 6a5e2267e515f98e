"""Archives of arrays that anyone may have written: `.npz` captures and `.agent` files.

Enters: a file. Leaves: its members and arrays, or a `FormatError`. Must not know: what they mean.
"""
