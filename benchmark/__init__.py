"""Who is better: environment, matches, ratings, reports."""
