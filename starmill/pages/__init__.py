"""What the HTML reports have in common: the page, the style sheet, and charts.

Enters: text, numbers and HTML fragments. Leaves: HTML and SVG text.
Must not know: what the numbers mean.
"""
