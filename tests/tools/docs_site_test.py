#!/usr/bin/env python3
"""The documentation as a site (docs/site/mkdocs.yml): its navigation has every page of docs/ once, its links hold, and
it asks for nothing from a network.

Reads the whole repository, to which pages have links.
"""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]  # of the source: runfiles are links to it
sys.path.insert(0, str(ROOT / "tests/support"))
import unittest_xml  # noqa: E402

DOCS = ROOT / "docs"
CONFIG = DOCS / "site/mkdocs.yml"
MISSING = [name for name in ["mkdocs", "material"] if importlib.util.find_spec(name) is None]
OF_THE_ROOT = {"index.md": "README.md", "contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}


def navigation():
    """What the entries of `nav` name: pages, and "folder/*"."""
    nav = re.search(r"^nav:\n((?: .*\n)+)", CONFIG.read_text(), re.MULTILINE)[1]
    return re.findall(r"(\S+(?:\.md|/\*))$", nav, re.MULTILINE)


class Navigation(unittest.TestCase):
    def test_it_has_every_page(self):
        pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
        pages = {page for page in pages if not page.startswith(("site/", "examples/"))}
        entries = navigation()
        folders = [entry[:-1] for entry in entries if entry.endswith("/*")]
        missing = sorted(page for page in pages - set(entries) if os.path.dirname(page) + "/" not in folders)
        self.assertEqual(missing, [], "not in nav of docs/site/mkdocs.yml")

    def test_what_it_names_exists(self):
        for entry in navigation():
            if not entry.endswith("/*"):
                self.assertTrue((ROOT / OF_THE_ROOT.get(entry, "docs/" + entry)).is_file(), entry)

    def test_it_has_no_page_twice(self):
        entries = navigation()
        self.assertEqual(sorted(entries), sorted(set(entries)))


def without_code(text):
    """The text without fenced and indented blocks of code."""
    text = re.sub(r"^(```+).*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(?<=\n\n)(?:    .*\n)+", "", text)


def anchors(path):
    """Of the headings of a page, as GitHub makes them."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", without_code(path.read_text()), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", words).replace(" ", "-"))
    return found


class Links(unittest.TestCase):
    def test_they_hold(self):
        pages = [*DOCS.rglob("*.md"), *(ROOT / name for name in OF_THE_ROOT.values())]
        wrong = []
        for page in pages:
            for target in re.findall(r"\]\(([^()\s]+)\)", without_code(page.read_text())):
                if re.match(r"[a-z]+:", target):
                    continue
                path, _, anchor = target.partition("#")
                file = page.parent / path if path else page
                if not file.exists() or anchor and anchor not in anchors(file):
                    wrong.append(f"{page.relative_to(ROOT)}: {target}")
        self.assertEqual(wrong, [])


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if MISSING:
            raise unittest.SkipTest(f"no Python package {', '.join(MISSING)}: pip install mkdocs-material")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.site = pathlib.Path(folder.name) / "site"
        cls.outcome = subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", CONFIG, "--site-dir", cls.site],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "NO_MKDOCS_2_WARNING": "1"})

    def test_links_and_anchors_hold(self):
        self.assertEqual(self.outcome.returncode, 0, self.outcome.stdout)

    def test_pages_ask_for_nothing_from_a_network(self):
        pages = list(self.site.rglob("*.html"))
        self.assertGreater(len(pages), 10)
        for page in pages:
            asked = re.findall(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//[^\s\">]+", page.read_text())
            self.assertEqual(asked, [], page.name)

    def test_the_search_knows_the_glossary(self):
        index = (self.site / "search/search_index.js").read_text()
        self.assertIn('"location":"glossary.html"', index)

    def test_there_are_no_links_to_files_that_the_site_lacks(self):
        for page in self.site.rglob("*.html"):
            for target in re.findall(r'<a\b[^>]*\bhref="([^"#]+)', page.read_text()):
                if not re.match(r"[a-z]+:", target):
                    self.assertTrue((page.parent / target).exists(), f"{page.name}: {target}")


if __name__ == "__main__":
    unittest_xml.main()
