"""Text differences and explanations for users, as HTML without scripts or external files.

`difference` (two texts side by side), `theory` (the recall of a scheme by similarity), `explanation`, `style` (style sheet and
page frame), `escape`.
"""
