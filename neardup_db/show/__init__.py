"""What people look at: differences of texts, charts and the figures behind them, as HTML that needs no script and no other file.

`difference` (two texts side by side), `charts` (inline SVG), `figures` (the numbers, by plain SQL on any connection), `style`
(the style sheet, the frame of a page), `theory` (what a scheme finds). Only the standard library and numpy are needed.
"""
