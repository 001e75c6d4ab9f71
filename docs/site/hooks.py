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
KEY_TABLES = """
<style>
.md-typeset table:not([class]) td:not(:first-child) code { overflow-wrap: anywhere; }
.md-typeset table:not([class]) td:last-child { min-width: 18rem; }
.md-typeset table:not([class]) td:nth-child(2) { min-width: 7rem; }
</style>"""
LIST_ITEM = re.compile(r"([-*]|\d+\.) ")


def title_of(path):
    return re.match(r"# (.*)", path.read_text()).group(1).strip()


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
        return [{title_of(docs / page): page} for page in pages if page not in named]

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


def paragraphs_apart(lines):
    """GitHub's lists may follow a paragraph's line at once; Python-Markdown wants an empty line."""
    fence = False
    before = ""
    for line in lines:
        fence ^= line.startswith("```")
        text_before = before.strip() and not before.startswith((" ", "|", "#", "```"))
        if not fence and LIST_ITEM.match(line) and text_before and not LIST_ITEM.match(before):
            yield ""
        yield line
        before = line


def on_page_markdown(markdown, page, config, files):
    name = page.file.src_uri
    out, fence = [], False
    lines = list(paragraphs_apart(markdown.split("\n")))
    # Links may be folded over lines, so paragraphs are looked at as a whole; code is left alone.
    block = []

    def flush():
        text = "\n".join(block)
        out.append(LINK.sub(lambda m: m[1] + site_link(name, m[2], m[3]), text))
        block.clear()

    for line in lines:
        mark = line.startswith("```")
        if mark or fence or (line.startswith("    ") and not block):
            if block:
                flush()
            out.append(line)
            fence ^= mark
        elif not line.strip():
            if block:
                flush()
            out.append(line)
        else:
            block.append(line)
    if block:
        flush()
    if name.startswith("configuration"):  # tables of keys: room for the meaning
        out.append(KEY_TABLES)
    return "\n".join(out)
