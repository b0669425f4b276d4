"""Differences of texts, charts and figures for people: HTML and SVG that need no script and no other file.

`difference` (two texts side by side), `charts` (SVG), `figures` (the numbers, by plain SQL on any connection), `theory` (the
share of similar pairs that a scheme finds), `explanation`, `report`, `style` (style sheet, frame of a page), `escape`.
"""
