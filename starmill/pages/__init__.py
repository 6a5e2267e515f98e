"""What the HTML reports share: the style sheet and charts.

Enters: numbers. Leaves: HTML and SVG text.
Must not know: what the numbers mean.
"""
