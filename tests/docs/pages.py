"""Reads the fenced blocks of a Markdown page, with the paragraph before each: what the tests of the docs act on."""

import re


class Block:
    """A fenced block: its language ("" when it has none), its text, the paragraph before it, and the line it begins in."""

    def __init__(self, language, before, line):
        self.language, self.before, self.line, self.text = language, before, line, ""

    def sentence(self):
        """The last sentence of the paragraph that leads to the block."""
        return re.split(r"(?<=[.:]) (?=[A-Z])", self.before)[-1]


def blocks(page):
    """All fenced blocks of a page, in order."""
    found, paragraph, ended, inside = [], [], False, False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("```"):
            if not inside:
                found.append(Block(line[3:].strip(), " ".join(paragraph), number))
            inside, paragraph = not inside, []
        elif inside:
            found[-1].text += line + "\n"
        elif not line.strip():
            ended = True
        else:
            paragraph = [line.strip()] if ended else [*paragraph, line.strip()]
            ended = False
    assert not inside, f"{page}: the block at line {found[-1].line} does not end"
    return found
