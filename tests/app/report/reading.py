"""Reads a page as a browser would."""

from html.parser import HTMLParser

VOID = {"meta", "link", "br"}


class Page(HTMLParser):
    """Reads a page, refusing tags that are not balanced."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.texts, self.cells = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        assert len(dict(attributes)) == len(attributes)
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.texts.append(data)
            if {"td", "th"} & set(self.open):
                self.cells[-1] += data

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    def attributes(self, name):
        return [attributes[name] for _, attributes in self.tags if name in attributes]

    def named(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]
