"""Draws what a terminal shows: text with colours in, SVG out.  terminal.py TITLE COMMAND <OUTPUT"""
import html, re, sys

title, command = sys.argv[1:3]
COLOURS = {30: "#5d6d63", 31: "#f2958c", 32: "#83d6a5", 33: "#e7c06a", 34: "#8ab4f8", 35: "#c9a0dc", 36: "#7fd1d8", 37: "#e2ebe4", 90: "#93a59a"}
text = sys.stdin.read().replace("\r\n", "\n").replace("\r", "")
text = re.sub(r"\x1b\][^\x07\x1b]*(\x07|\x1b\\)", "", text)
text = re.sub(r"\x1b\[[0-9;?]*[A-Zac-ln-z]", "", text)


def parts(line, style):
    """Splits a line into texts with their styles; the style goes on in the next line."""
    found = []
    for at, piece in enumerate(re.split(r"\x1b\[([0-9;]*)m", line)):
        if at % 2 == 0:
            if piece:
                found.append((piece, dict(style)))
            continue
        for code in [int(number or 0) for number in piece.split(";")]:
            if code == 0:
                style.clear()
            elif code == 1:
                style["bold"] = True
            elif code == 2:
                style["faint"] = True
            elif code == 22:
                style.pop("bold", None), style.pop("faint", None)
            elif code == 39:
                style.pop("colour", None)
            elif code in COLOURS:
                style["colour"] = COLOURS[code]
    return found


style, lines = {}, [[("$ ", {"faint": True}), (command, {"bold": True})]]
lines += [parts(line, style) for line in text.rstrip("\n").split("\n")]
width = max(sum(len(piece) for piece, _ in line) for line in lines)


def css(one):
    colour = one.get("colour", "#93a59a" if one.get("faint") else "#e2ebe4")
    return f"fill:{colour};" + ("font-weight:600;" if one.get("bold") else "")


step, line_height = 8.43, 20
wide, high = int(width * step) + 48, len(lines) * line_height + 64
print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" role="img" aria-label="{html.escape(title)}">')
print(f'<rect width="{wide}" height="{high}" rx="10" fill="#0f1511"/>')
for at, colour in enumerate(["#f2958c", "#e7c06a", "#83d6a5"]):
    print(f'<circle cx="{22 + at * 18}" cy="20" r="5.5" fill="{colour}"/>')
print('<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,\'DejaVu Sans Mono\',monospace" font-size="14" xml:space="preserve">')
for row, line in enumerate(lines):
    column = 0
    for piece, one in line:
        x, y = 24 + column * step, 58 + row * line_height
        if piece.strip():
            # Browsers differ in whether they collapse spaces within a picture; these they all keep.
            shown = html.escape(piece).replace(" ", "&#160;")
            print(f'<text x="{x:.1f}" y="{y}" textLength="{len(piece) * step:.1f}" style="{css(one)}">{shown}</text>')
        column += len(piece)
print("</g></svg>")
