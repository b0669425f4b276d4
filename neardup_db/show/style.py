"""The style sheet of all pages, and the frame of a self-contained page.

    CSS                     -> the rules, for a <style> element; every class begins with "nd-"
    page(title, body)       -> a complete HTML document; `title` is text, `body` HTML
    fragment(body)          -> HTML with its style, for use in another page, such as a notebook
    facts(rows)             -> names (text) and values (HTML) as a table

Light and dark mode follow the system. Text has a contrast of at least 4.5 to 1, chart lines at least 3 to 1, and colour is never
the only sign.
"""

from __future__ import annotations

from collections.abc import Iterable

from .escape import escape

CSS = """
html:has(> .nd-page) { color-scheme: light dark; background: var(--nd-page); }
:root {
  --nd-text: #1b1f24; --nd-quiet: #57606a; --nd-page: #ffffff; --nd-card: #f6f8fa; --nd-line: #d0d7de; --nd-link: #0a58b5;
  --nd-del: #ffdcd9; --nd-del-text: #86101b; --nd-ins: #d3f5d9; --nd-ins-text: #0b4f1e; }
@media (prefers-color-scheme: dark) { :root {
  --nd-text: #e6e9ed; --nd-quiet: #a3adb8; --nd-page: #14181d; --nd-card: #1d232a; --nd-line: #3a434d; --nd-link: #7cb7ff;
  --nd-del: #5a1e22; --nd-del-text: #ffd0cd; --nd-ins: #16452a; --nd-ins-text: #bdf2c8; } }
.nd-page { margin: 0 auto; max-width: 68rem; padding: 1rem 1rem 4rem; background: var(--nd-page); color: var(--nd-text);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; overflow-wrap: anywhere; }
.nd-page.nd-fragment { margin: 0; max-width: none; padding: .6rem; border-radius: .5rem; font-size: .9rem; }
.nd-page h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0 .25rem; }
.nd-page h2 { font-size: 1.2rem; margin: 2.25rem 0 .75rem; }
.nd-page a { color: var(--nd-link); }
.nd-quiet, .nd-note { color: var(--nd-quiet); }
.nd-note { font-size: .875rem; margin: .4rem 0; }
.nd-figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: .6rem; margin: 1rem 0; padding:
  0; }
.nd-figures > div { background: var(--nd-card); border: 1px solid var(--nd-line); border-radius: .5rem; padding: .6rem .8rem; }
.nd-figures dt { color: var(--nd-quiet); font-size: .875rem; }
.nd-figures dd { margin: 0; font-size: 1.3rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.nd-charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); gap: 1rem; }
.nd-charts > :only-child { max-width: 34rem; }
.nd-chart { margin: 0; padding: .8rem; background: var(--nd-card); border: 1px solid var(--nd-line); border-radius: .5rem;
  min-width: 0; }
.nd-chart figcaption { font-weight: 600; margin-bottom: .3rem; }
.nd-chart svg { display: block; width: 100%; height: auto; color: var(--nd-text); }
.nd-chart details { font-size: .875rem; margin-top: .3rem; }
.nd-page summary { cursor: pointer; }
.nd-page summary:focus-visible, .nd-page a:focus-visible { outline: 2px solid var(--nd-link); outline-offset: 2px; }
.nd-table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
.nd-table th, .nd-table td { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid
  var(--nd-line); }
.nd-table thead th { overflow-wrap: normal; }
.nd-table .nd-name, .nd-table .nd-number { white-space: nowrap; }
.nd-table .nd-number { text-align: right; }
.nd-shingles { display: flex; flex-wrap: wrap; gap: .3rem .5rem; list-style: none; padding: 0; margin: .4rem 0; }
.nd-shingles > li > * { border: 1px solid var(--nd-line); border-radius: .3rem; padding: 0 .4rem; text-decoration: none;
  overflow-wrap: anywhere; }
.nd-shingles del, .nd-diff del { background: var(--nd-del); color: var(--nd-del-text); }
.nd-shingles ins, .nd-diff ins { background: var(--nd-ins); color: var(--nd-ins-text); }
.nd-scroll { overflow-x: auto; }
.nd-advice { border-left: .25rem solid var(--nd-link); padding: .2rem 0 .2rem .8rem; }
.nd-cluster { border: 1px solid var(--nd-line); border-radius: .5rem; margin: .6rem 0; }
.nd-cluster > summary { padding: .55rem .8rem; background: var(--nd-card); border-radius: .5rem; }
.nd-cluster > :not(summary) { margin-left: .8rem; margin-right: .8rem; }
.nd-member { margin: .6rem 0 .9rem; }
.nd-member > summary { padding: .25rem 0; }
.nd-key { font-weight: 600; }
.nd-badge { display: inline-block; border: 1px solid var(--nd-line); border-radius: 1rem; padding: 0 .55rem; font-size: .85rem;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
.nd-diff { border: 1px solid var(--nd-line); border-radius: .5rem; overflow: hidden; margin: .4rem 0; color: var(--nd-text);
  background: var(--nd-page); }
.nd-row { display: grid; grid-template-columns: 1fr 1fr; border-top: 1px dashed var(--nd-line); }
.nd-row.nd-heads { border-top: 0; background: var(--nd-card); }
.nd-heads + .nd-row { border-top: 1px solid var(--nd-line); }
.nd-side { padding: .5rem .7rem; white-space: pre-wrap; overflow-wrap: anywhere; min-width: 0; unicode-bidi: isolate; }
.nd-side + .nd-side { border-left: 1px solid var(--nd-line); }
.nd-diff > .nd-note { padding: 0 .7rem; }
.nd-diff del { text-decoration: line-through; border-radius: .2rem; }
.nd-diff mark { background: var(--nd-ins); color: var(--nd-ins-text); border-radius: .2rem; }
.nd-diff ins { text-decoration: underline; border-radius: .2rem; }
@media (max-width: 40rem) {
  .nd-row { grid-template-columns: 1fr; }
  .nd-row.nd-heads { display: none; }
  .nd-side + .nd-side { border-left: 0; border-top: 1px solid var(--nd-line); }
  .nd-side::before { content: attr(data-label); display: block; font-weight: 600; font-size: .85rem; color: var(--nd-quiet); } }
@media print { .nd-page { max-width: none; } }
"""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def page(title: str, body: str) -> str:
    """An HTML document without scripts or external files. body: HTML.

    >>> from neardup_db.show.style import page
    >>> "<title>a &lt;b&gt;</title>" in page("a <b>", "<p>text</p>")
    True
    """
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{CSS}</style>\n</head>\n"
        f'<body class="nd-page">\n<main>\n{body}\n</main>\n</body>\n</html>\n'
    )


def fragment(body: str) -> str:
    return f'<div class="nd-page nd-fragment"><style>{CSS}</style>{body}</div>'


def facts(rows: Iterable[tuple[str, str]]) -> str:
    cells = "".join(f'<tr><th scope="row">{escape(name)}</th><td>{value}</td></tr>' for name, value in rows)
    return f'<div class="nd-scroll"><table class="nd-table">{cells}</table></div>'
