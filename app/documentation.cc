#include "app/documentation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <system_error>

#include "base/columns.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/input_file.h"
#include "base/spelling.h"
#include "trainer/config/reference.h"

namespace plimsoll::trainer {
namespace {

constexpr size_t kMostPageBytes = size_t{4} << 20;

std::string PageText(const std::string& path) { return ReadInput(path, kMostPageBytes); }

bool HasPages(const std::filesystem::path& folder) {
  std::error_code error;
  return std::filesystem::is_regular_file(folder / "configuration.md", error) &&
         std::filesystem::is_regular_file(folder / "commands.md", error);
}

// The folder docs/ in `start` or in a folder above it; empty if no folder has one.
std::filesystem::path PagesAbove(const std::filesystem::path& start) {
  for (std::filesystem::path folder = start;; folder = folder.parent_path()) {
    if (HasPages(folder / "docs")) return folder / "docs";
    if (folder == folder.parent_path()) return {};
  }
}

bool Contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

// The level of a heading: its number of #. 0: the line is no heading.
size_t HeadingLevel(std::string_view line) {
  const size_t level = std::min(line.find_first_not_of('#'), line.size());
  return level > 0 && level < line.size() && line[level] == ' ' ? level : 0;
}

std::string_view HeadingText(std::string_view line) { return line.substr(HeadingLevel(line) + 1); }

// Calls visit(line, level) for each line; `level` is the level of the heading, or 0. Lines of code
// are never headings.
template <typename Visit>
void ForEachPageLine(const std::string& text, const Visit& visit) {
  std::istringstream lines(text);
  bool code = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) code = !code;
    visit(line, code ? 0 : HeadingLevel(line));
  }
}

// Pages of keys (trainer/config/reference.h) are found by their full topics: the name of a section
// means the rows of its keys.
bool IsPageOfKeys(const DocumentationPage& page) {
  return page.topic.starts_with("configuration/");
}

// The rows of a key, or of the keys of a section or a nested map.
std::vector<config::KeyRow> RowsOf(const std::string& name) {
  std::vector<config::KeyRow> rows;
  std::ranges::copy_if(config::KeyRows(), std::back_inserter(rows), [&](const auto& row) {
    return row.key == name || row.key.starts_with(name + ".");
  });
  return rows;
}

std::string TextOf(const std::vector<config::KeyRow>& rows) {
  std::string text;
  const auto add = [&](const char* what, const std::string& cell) {
    text += Wrapped(fmt::format("  {}: {}", what, cell), kLineColumns, "    ") + "\n";
  };
  for (const config::KeyRow& row : rows) {
    text += (text.empty() ? "" : "\n") + row.key + "\n";
    add("type", row.type);
    add("default", row.default_value);
    add("meaning", row.meaning);
  }
  return text;
}

std::string LastPart(const std::string& topic) { return topic.substr(topic.rfind('/') + 1); }

std::string SectionOf(const std::string& text, std::string_view anchor) {
  std::string section;
  size_t open = 0;  // the level of the section's heading; 0 before the section
  ForEachPageLine(text, [&](const std::string& line, size_t level) {
    if (open > 0 && level > 0 && level <= open) open = std::string::npos;  // the section has ended
    if (open == 0 && level > 0 && AnchorOf(HeadingText(line)) == anchor) open = level;
    if (open > 0 && open != std::string::npos) section += line + "\n";
  });
  return section;
}

// The topic of a link to a page, as pages and messages write links: without the anchor and the path
// before the topic.
std::string TopicOfLink(std::string_view name) {
  name = name.substr(0, name.find('#'));
  for (const std::string_view before : {"./", "../", "docs/"}) {
    while (name.starts_with(before)) name.remove_prefix(before.size());
  }
  for (const std::string_view after : {".md", "/README"}) {
    if (name.ends_with(after)) name.remove_suffix(after.size());
  }
  return LowerCase(name);
}

}  // namespace

std::string AnchorOf(std::string_view heading) {
  std::string anchor;
  for (const char c : LowerCase(heading)) {
    if (c == ' ') {
      anchor += '-';
    } else if (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || (c & 0x80)) {
      anchor += c;
    }
  }
  return anchor;
}

Documentation::Documentation(const std::string& folder) : folder_(folder) {
  ForEachFileBelow(folder, [&](const std::string& path) {
    const std::filesystem::path inside = std::filesystem::path(path).lexically_relative(folder);
    if (inside.extension() != ".md") return true;
    std::string topic = inside.parent_path() / inside.stem();
    if (inside.filename() == "README.md") topic = inside.parent_path();
    std::string title;
    ForEachPageLine(PageText(path), [&](const std::string& line, size_t level) {
      if (title.empty() && level == 1) title = HeadingText(line);
    });
    if (!topic.empty()) pages_.push_back({std::move(topic), path, std::move(title)});
    return true;
  });
  std::ranges::sort(pages_, [](const DocumentationPage& a, const DocumentationPage& b) {
    const bool deep_a = Contains(a.topic, "/"), deep_b = Contains(b.topic, "/");
    return deep_a != deep_b ? deep_b : a.topic < b.topic;
  });
}

Documentation Documentation::Here() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  std::filesystem::path folder = error ? "" : PagesAbove(program.parent_path());
  if (folder.empty()) folder = PagesAbove(std::filesystem::current_path(error));
  if (folder.empty()) {
    throw UserError(
        "plimsoll docs: no folder docs/ is above this program or above the current folder; run it "
        "in a clone of the repository");
  }
  // In a build, docs/ is a symbolic link to the clone's docs/.
  const std::filesystem::path real = std::filesystem::canonical(folder, error);
  return Documentation(error ? folder : real);
}

std::string Documentation::List() const {
  size_t widest = 0;
  for (const DocumentationPage& page : pages_) widest = std::max(widest, Columns(page.topic));
  std::string list;
  for (const DocumentationPage& page : pages_) {
    const std::string space(widest - Columns(page.topic), ' ');
    list += fmt::format("{}{}  {}\n", page.topic, space, page.title);
  }
  return list +
         "\nplimsoll docs TOPIC prints a page, plimsoll docs KEY what a key of run files means.\n";
}

const DocumentationPage* Documentation::Find(std::string_view name) const {
  const std::string topic = TopicOfLink(name);
  const auto exact = std::ranges::find(pages_, topic, &DocumentationPage::topic);
  if (exact != pages_.end()) return &*exact;
  const auto ends = [&](const DocumentationPage& page) {
    return !IsPageOfKeys(page) && LastPart(page.topic) == topic;
  };
  const auto found = std::ranges::find_if(pages_, ends);
  if (found == pages_.end() || std::ranges::count_if(pages_, ends) > 1) return nullptr;
  return &*found;
}

std::string Documentation::Text(const std::string& name) const {
  if (const DocumentationPage* page = Find(name)) {
    std::string text = PageText(page->path);
    const size_t anchor = name.find('#');
    if (anchor == name.npos) return text;
    std::string section = SectionOf(text, LowerCase(name.substr(anchor + 1)));
    if (!section.empty()) return section;
    std::vector<std::string> anchors;
    ForEachPageLine(text, [&](const std::string& line, size_t level) {
      if (level > 1) anchors.push_back(page->topic + "#" + AnchorOf(HeadingText(line)));
    });
    throw UserError(fmt::format("plimsoll docs {}: the page has no such section{}{}", name,
                                anchors.empty() ? "" : "; it has ", fmt::join(anchors, ", ")));
  }
  if (const auto rows = RowsOf(name); !rows.empty()) return TextOf(rows);
  if (auto entry = GlossaryEntry(name)) return *entry;
  Refuse(name);
}

const DocumentationPage& Documentation::PageOf(const std::string& name) const {
  const DocumentationPage* page = Find(name);
  if (const auto rows = RowsOf(name); page == nullptr && !rows.empty()) {
    page = Find(rows.front().topic);
  }
  if (page == nullptr && GlossaryEntry(name)) page = Find("glossary");
  if (page == nullptr) Refuse(name);
  return *page;
}

std::optional<std::string> Documentation::GlossaryEntry(const std::string& name) const {
  constexpr std::string_view kBegin = "- **", kEnd = "**";
  const DocumentationPage* page = Find("glossary");
  if (page == nullptr) return std::nullopt;
  std::string entry;
  bool open = false;
  ForEachPageLine(PageText(page->path), [&](const std::string& line, size_t) {
    if (line.starts_with(kBegin)) {
      const std::string rest = line.substr(kBegin.size());
      open = LowerCase(rest.substr(0, rest.find(kEnd))) == LowerCase(name);
    } else if (!line.starts_with("  ")) {
      open = false;
    }
    if (open) entry += line.substr(2) + "\n";
  });
  if (entry.empty()) return std::nullopt;
  return entry;
}

void Documentation::Refuse(const std::string& name) const {
  constexpr size_t kMostNear = 6, kShortWord = 3;
  std::vector<std::string> known, near;
  const auto add = [&](const std::string& word) {
    if (!word.empty() && std::ranges::find(near, word) == near.end()) near.push_back(word);
  };
  for (const DocumentationPage& page : pages_) {
    known.push_back(page.topic);
    if (Find(LastPart(page.topic)) != nullptr) known.push_back(LastPart(page.topic));
  }
  for (const config::KeyRow& row : config::KeyRows()) {
    known.push_back(row.key);
    if (Contains(row.key, ".")) known.push_back(row.key.substr(0, row.key.find('.')));
  }
  const std::string word = LowerCase(name);
  const std::string topic = TopicOfLink(name);
  add(NearestName(topic, known));
  if (word.size() >= kShortWord) {
    for (const DocumentationPage& page : pages_) {
      if (Contains(page.topic, topic)) add(page.topic);
    }
    for (const std::string& other : known) {
      if (Contains(other, ".") && Contains(LowerCase(other), word)) add(other);
    }
    for (const DocumentationPage& page : pages_) {
      bool named = false;
      ForEachPageLine(PageText(page.path), [&](const std::string& line, size_t level) {
        named |= level > 0 && Contains(LowerCase(line), word);
      });
      if (named) add(page.topic);
    }
  }
  throw UserError(
      fmt::format("plimsoll docs {}: no such topic, key or word; {}plimsoll docs lists all topics",
                  Shortened(name), near.empty() ? "" : "near: " + ListOf(near, kMostNear) + "; "));
}

}  // namespace plimsoll::trainer
