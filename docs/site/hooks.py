"""What mkdocs does not do by itself for pages that are also read in the repository (mkdocs.yml)."""

import pathlib
import posixpath
import re

from mkdocs.structure.files import File

DOCS = pathlib.Path(__file__).resolve().parent.parent
ROOT = DOCS.parent
# Pages of the repository's root, by their names in the site.
ROOT_PAGES = {"index.md": "README.md", "contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
CODE = re.compile(r"`[^`]+`")  # in tables GitHub reads \\| there as |
SEARCHED_LAST = ("extending", "changelog", "contributing", "configuration", "measured/", "how/")
KEY_TABLES = """
<style>
.md-typeset table:not([class]) td:not(:first-child) code { overflow-wrap: anywhere; }
.md-typeset table:not([class]):not(:has(th code)) td:last-child { min-width: 18rem; }
.md-typeset table:not([class]):not(:has(th code)) td:nth-child(2) { min-width: 7rem; }
</style>"""
LIST_ITEM = re.compile(r"([-*]|\d+\.) ")


def title_of(path):
    return re.match(r"# (.*)", path.read_text()).group(1).strip()


def entry_title(path):
    title = title_of(path).removeprefix("Measured: ")
    return title[0].upper() + title[1:]


def expanded(nav, docs=DOCS):
    """The navigation with the pages of a folder in place of "folder/*"."""
    named = set(re.findall(r"[\w/]+\.md", repr(nav)))

    def walk(item):
        if isinstance(item, list):
            return [one for entry in item for one in walk(entry)]
        if isinstance(item, dict):
            return [{title: walk(value) if isinstance(value, list) else value for title, value in item.items()}]
        if not item.endswith("/*"):
            return [item]
        pages = [path.relative_to(docs).as_posix() for path in sorted(docs.glob(item + ".md"))]
        return [{entry_title(docs / page): page} for page in pages if page not in named]

    return walk(nav)


def on_config(config):
    config.nav = expanded(config.nav)
    return config


def on_files(files, config):
    for name, source in ROOT_PAGES.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text()))
    for name in ["site.css", "frame_worker.js"]:
        files.append(File.generated(config, name, content=(DOCS / "site" / name).read_text()))
    return files


def on_post_template(output, template_name, config):
    """Of a server alone, at paths of its own."""
    return "" if template_name == "404.html" else output


def on_post_page(output, page, config):
    """The theme would load this script from the network."""
    script = "../" * page.file.src_uri.count("/") + "frame_worker.js"
    return re.sub(r'src="https://unpkg.com/iframe-worker/[^"]*"', f'src="{script}"', output)


def site_link(page, text, target):
    """The link of `page`, as the site has it: to a page, or, of other files of the repository, which
    the site doesn't have, their path as code."""
    if re.match(r"[a-z]+:|#", target):
        return f"[{text}]({target})"
    path, _, anchor = target.partition("#")
    folder = "" if page in ROOT_PAGES else posixpath.join("docs", posixpath.dirname(page))
    place = posixpath.normpath(posixpath.join(folder, path))
    by_source = {source: name for name, source in ROOT_PAGES.items()}
    inside = by_source.get(place) or (place[len("docs/"):] if place.startswith("docs/") else "")
    known = place in by_source or (ROOT / place).is_file() and not place.startswith(("docs/site/", "docs/examples/"))
    if inside and known:
        if text in (path, posixpath.basename(path)):  # a file's name says less here than its title
            text = title_of(ROOT / place)
        relative = posixpath.relpath(inside, posixpath.dirname(page) or ".")
        return f"[{text}]({relative}{'#' + anchor if anchor else ''})"
    if not (ROOT / place).exists():
        return f"[{text}]({target})"  # a mistake, which mkdocs reports
    return f"`{place}`" if text.strip("`") in (place, posixpath.basename(place)) else f"{text} (`{place}`)"


def for_python_markdown(lines):
    """GitHub's lists may follow a paragraph's line at once, and what belongs to an item is indented by the width of its
    mark; Python-Markdown wants an empty line, and four spaces. Of a fence's words it knows the first."""
    fence = False
    before = ""
    indent = 0  # of what belongs to the item
    parted = False  # the item has an empty line
    for line in lines:
        if line.startswith("```"):
            fence = not fence
            line = line.split(" ")[0]
        item = None if fence else LIST_ITEM.match(line)
        if fence or line.strip() and not line.startswith(" " * max(indent, 1)):
            indent = 0
            parted &= item is not None
        if item:
            after_text = not before.startswith((" ", "|", "#", "```")) and not LIST_ITEM.match(before)
            if before.strip() and (after_text or parted):
                yield ""
            indent = len(item[0])
            parted = False
            yield line
        else:
            parted |= not line.strip()
            yield "    " + line[indent:] if indent and line.strip() else line
        before = line


def for_tables(row):
    """A number keeps its unit on its line."""
    row = CODE.sub(lambda m: m[0].replace(r"\|", "|"), row)
    return re.sub(r"(\d) (?=([KMGT]i?B|[mµ]?s|%|kJ|W)\b|%)", "\\1\u00a0", row)


def on_page_markdown(markdown, page, config, files):
    name = page.file.src_uri
    if name.startswith(SEARCHED_LAST):
        page.meta["search"] = {"boost": 0.5}
    lines = list(for_python_markdown(markdown.split("\n")))
    lines = [for_tables(line) if line.startswith("|") else line for line in lines]
    if name.startswith("configuration"):  # tables of keys: room for the meaning, none where columns are families
        lines.append(KEY_TABLES)
    # In code, what looks like a link names no file, and stays as it is.
    return LINK.sub(lambda m: m[1] + site_link(name, m[2], m[3]), "\n".join(lines))
