"""What the site needs besides the pages: the front page, and links to files of the repository.

In: Markdown as it is read in the repository. Out: the same for the site. The README is the
front page; links from pages to files outside `docs/` become plain text, since the site does not
have those files.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#:]+)(#[^)]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Adds the README as the front page."""
    text = (ROOT / "README.md").read_text("utf-8")
    files.append(File.generated(config, "index.md", content=_moved(text)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replaces links that lead out of the folder of the documents."""
    folder = (ROOT / "docs" / page.file.src_uri).parent

    def replaced(match: re.Match[str]) -> str:
        target = (folder / match[2]).resolve()
        if target.is_relative_to(ROOT / "docs"):
            return match[0]
        if not target.exists():
            raise FileNotFoundError(f"{page.file.src_uri}: link to {match[2]}")
        return f"{match[1]} (`{target.relative_to(ROOT)}`)"

    return _LINK.sub(replaced, markdown)


def _moved(text: str) -> str:
    """Returns the README as if it were in docs/."""

    def replaced(match: re.Match[str]) -> str:
        target = match[2]
        if target.startswith("docs/"):
            target = target.removeprefix("docs/")
        else:
            target = f"../{target}"
        return f"[{match[1]}]({target}{match[3] or ''})"

    return re.sub(r"\[([^\]]*)\]\(([^)#:]+)(#[^)]*)?\)", replaced, text)
