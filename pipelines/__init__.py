"""From files to a dataset; the only package that knows Beam."""
