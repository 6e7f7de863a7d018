"""The parts of an HTML page: escaped text, tables, figures, and the style sheet."""

import html
import re
from collections.abc import Iterable, Sequence

STYLE_SHEET = """
:root { --ink: #1c2430; --soft: #5b6675; --line: #dfe3e8; --paper: #ffffff; --wash: #f5f7f9;
  --accent: #0072B2; --bad: #B03A00; }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: var(--wash);
  font: 15px/1.55 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1000px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 26px; margin: 0 0 2px; letter-spacing: -0.01em; }
h2 { font-size: 18px; margin: 0 0 10px; }
h3 { font-size: 15px; margin: 22px 0 6px; }
p { margin: 0 0 10px; max-width: 75ch; }
.soft { color: var(--soft); }
nav { margin: 12px 0 18px; display: flex; flex-wrap: wrap; gap: 4px 16px; font-size: 14px; }
a { color: var(--accent); }
section { background: var(--paper); border: 1px solid var(--line); border-radius: 8px;
  padding: 18px 22px; margin: 0 0 18px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(135px, 1fr)); gap: 10px;
  margin: 0 0 18px; }
.tile { background: var(--paper); border: 1px solid var(--line); border-radius: 8px;
  padding: 10px 14px; }
.tile b { display: block; font-size: 21px; font-weight: 600; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: 13px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13.5px; margin: 4px 0 10px; }
th, td { padding: 4px 14px 4px 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
td code { font-size: 13px; overflow-wrap: anywhere; }
.warning { border-left: 4px solid var(--bad); padding: 6px 12px; background: #fdf3ee; }
figure { margin: 10px 0 16px; }
figure svg { width: 100%; height: auto; display: block; }
figcaption { color: var(--soft); font-size: 13px; max-width: 85ch; margin-top: 4px; }
footer { color: var(--soft); font-size: 13px; }
@media print { body { background: none; } section { break-inside: avoid; } nav { display: none; } }
"""


def escape(text: object) -> str:
    """Return text that means nothing to HTML."""
    return html.escape(str(text), quote=True)


def number(value: object) -> str:
    """Return a number in at most four significant digits, and anything else as it is, escaped."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return escape(value)
    if isinstance(value, int) or (abs(value) < 1e6 and value == round(value)):
        return f"{int(value):,}".replace(",", "\u202f").replace("-", "\u2212")
    return f"{value:.4g}".replace("-", "\u2212")


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph of escaped text, of a class of the style sheet."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def tile(value: object, label: str) -> str:
    """Return one figure of the summary."""
    return f'<div class="tile"><b>{number(value)}</b><span>{escape(label)}</span></div>'


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; a column is aligned as numbers if its first cell is one."""
    listed = [list(row) for row in rows]
    if not listed:
        return ""
    kinds = [
        ' class="number"' if isinstance(cell, int | float) and not isinstance(cell, bool) else ""
        for cell in listed[0]
    ]
    head = "".join(
        f"<th{kind}>{escape(name)}</th>" for kind, name in zip(kinds, header, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{kind}>{number(cell)}</td>" for kind, cell in zip(kinds, row, strict=True))
        + "</tr>"
        for row in listed
    )
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def drawing(svg: str, alternative: str, caption: str) -> str:
    """Return a figure from matplotlib's SVG, without its prolog, its metadata and its size."""
    inner = svg[svg.index("<svg") :]
    inner = re.sub(r"<metadata>.*?</metadata>", "", inner, count=1, flags=re.DOTALL)
    tag_end = inner.index(">")
    tag = re.sub(r' (?:width|height)="[^"]*"', "", inner[:tag_end])
    label = f' role="img" aria-label="{escape(alternative)}"'
    return (
        f"<figure>{tag}{label}{inner[tag_end:]}<figcaption>{escape(caption)}</figcaption></figure>"
    )


def page(title: str, subtitle: str, tiles: Sequence[str], sections: dict[str, str]) -> str:
    """Return the page: its sections by title, and links to them."""
    names = {name: re.sub(r"\W+", "-", name.lower()) for name in sections}
    links = "".join(f'<a href="#{anchor}">{escape(name)}</a>' for name, anchor in names.items())
    body = "".join(
        f'<section id="{names[name]}"><h2>{escape(name)}</h2>{content}</section>\n'
        for name, content in sections.items()
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE_SHEET}</style></head>\n"
        f'<body><main><h1>{escape(title)}</h1><p class="soft">{escape(subtitle)}</p>'
        f'<nav>{links}</nav><div class="tiles">{"".join(tiles)}</div>\n{body}'
        "</main></body></html>\n"
    )
