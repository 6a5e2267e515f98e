"""The page of the reports: no text can break out of it, and its policy fits its scripts."""

import base64
import hashlib
import html.parser
import json
import re

import pytest

from starmill.pages import document

# With these, a browser reads the rest of the page as part of the script element.
HOSTILE = ["<!--<script>", "</script><script>alert(1)</script>", "<!-- -->", "a & b"]


class Elements(html.parser.HTMLParser):
    """Collects the start tags and the text of script elements, as a browser sees them."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self.attributes = [], [], {}
        self.in_script = False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes[tag, dict(attributes).get("http-equiv")] = dict(attributes)
        if tag == "script":
            self.scripts.append("")
            self.in_script = True

    def handle_endtag(self, tag):
        self.in_script = False

    def handle_data(self, data):
        if self.in_script:
            self.scripts[-1] += data


def make(**changes):
    parts = {"title": "A", "subtitle": "b", "main": "<p>c</p>", "footer": "d"}
    return document.page(**{**parts, **changes})


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_in_the_data_breaks_the_page(name):
    plain, page = make(data={"maps": ["x"]}), make(data={"maps": [name]})
    assert Elements(page).tags == Elements(plain).tags
    # Nothing between the element's tags can change how a browser reads it.
    (content,) = re.findall('<script id="maps"[^>]*>(.*?)</script>', page)
    assert "<" not in content
    assert json.loads(content) == [name]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("place", ["title", "subtitle", "footer"])
def test_no_plain_text_breaks_the_page(place, name):
    assert Elements(make(**{place: name})).tags == Elements(make()).tags


def test_the_policy_allows_the_pages_own_scripts_and_no_others():
    elements = Elements(make(script="console.log('<b>')", data={"x": 1}))
    policy = elements.attributes["meta", "Content-Security-Policy"]["content"]
    assert "default-src 'none'" in policy
    allowed = set(re.findall("'sha256-([^']+)'", policy))
    digests = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in elements.scripts
    ]
    # The first element holds data, which needs no permission because it never runs.
    assert (elements.scripts[0], set(digests[1:])) == ("1", allowed)
    assert "console.log('<b>')" in elements.scripts
