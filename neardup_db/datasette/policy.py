"""The style sheet of the pages, and response headers that allow only this style sheet."""

from __future__ import annotations

import base64
import hashlib

from ..show.style import CSS

STYLE = (
    CSS
    + """
body.nd-page { max-width: 72rem; }
main:focus { outline: none; }
.nd-unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.nd-skip { position: absolute; left: -100rem; }
.nd-skip:focus { position: static; display: inline-block; padding: .5rem; }
.nd-nav ol { list-style: none; margin: 0; padding: 0; display: flex; flex-wrap: wrap; align-items: baseline; gap: .25rem .75rem; }
.nd-nav li + li::before { content: "/"; color: var(--nd-quiet); margin-right: .75rem; }
.nd-nav a, .nd-table a, .nd-foot a { display: inline-block; padding: .2rem 0; }
.nd-page .nd-table td { vertical-align: baseline; }
.nd-page h3 { font-size: 1rem; margin: 0 0 .3rem; }
.nd-form { display: grid; gap: .75rem; }
.nd-form label { font-weight: 600; }
.nd-form textarea, .nd-form input, .nd-form select { font: inherit; color: var(--nd-text); background: var(--nd-page);
  border: 1px solid var(--nd-quiet); border-radius: .35rem; padding: .5rem; width: 100%;
  min-height: 2.65rem; box-sizing: border-box; }
.nd-form ::placeholder { color: var(--nd-quiet); opacity: 1; }
.nd-fields { display: grid; grid-template-columns: repeat(auto-fit, minmax(10rem, 1fr)); gap: .75rem; align-items: end; }
.nd-form button { font: inherit; font-weight: 600; color: var(--nd-page); background: var(--nd-link); border: 0;
  border-radius: .35rem; padding: .6rem 1.4rem; min-height: 2.75rem; cursor: pointer; justify-self: start; }
.nd-form textarea:focus-visible, .nd-form input:focus-visible, .nd-form select:focus-visible, .nd-form button:focus-visible,
.nd-scroll:focus-visible { outline: 3px solid var(--nd-link); outline-offset: 2px; }
.nd-alert { border: 2px solid var(--nd-del-text); border-radius: .5rem; padding: .6rem .9rem; margin: 1rem 0; }
.nd-decide { display: flex; flex-wrap: wrap; gap: .5rem; }
.nd-decide form + form button, .nd-done button { color: var(--nd-link); background: none;
  border: 1px solid var(--nd-link); padding: .6rem .9rem; }
.nd-done { border-color: var(--nd-link); }
.nd-entry { margin: 0 0 1.75rem; }
.nd-text { white-space: pre-wrap; border: 1px solid var(--nd-line); border-radius: .5rem; padding: .6rem .8rem; margin: .4rem 0;
  max-height: 30rem; overflow: auto; font: inherit; }
.nd-more { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1rem 0; }
.nd-foot { margin-top: 3rem; border-top: 1px solid var(--nd-line); color: var(--nd-quiet); font-size: .875rem; }
"""
)

_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode("utf-8")).digest()).decode("ascii")

HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
}
"""The browser runs no scripts on these pages, whatever a document contains, and loads nothing for them."""
