"""Text differences, charts and figures for users, as HTML and SVG without scripts or external files.

`difference` (two texts side by side), `charts` (SVG), `figures` (the numbers, by plain SQL on any connection), `theory` (the
recall of a scheme by similarity), `explanation`, `report`, `style` (style sheet and page frame), `escape`.
"""
