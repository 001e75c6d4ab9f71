// The pages of docs/, read from files next to the program: topics and single sections. The rows of
// the configuration's keys come from their schema (trainer/config/reference.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::trainer {

struct DocumentationPage {
  std::string topic;  // path in docs/ without .md; a README.md has its folder's: "studies"
  std::string path;
  std::string title;  // the text of the first heading
};

class Documentation {
 public:
  // Reads the pages in `folder`, at any depth. Throws a UserError if a page cannot be read.
  explicit Documentation(const std::string& folder);

  // Finds the nearest folder docs/ above the program (a wheel, an unpacked archive, a build), else
  // the nearest above the current folder (a clone). Throws a UserError if neither exists.
  static Documentation Here();

  const std::string& folder() const { return folder_; }
  // Pages are sorted by topic; those of subfolders are last.
  const std::vector<DocumentationPage>& pages() const { return pages_; }

  // A list with one line for each page.
  std::string List() const;

  // The page that `name` means. `name` is a topic, the last part of a topic if only one page has it
  // and that page is not one of configuration/, or a link to the page
  // ("docs/budget.md#when-nothing-fits"). nullptr: no such page.
  const DocumentationPage* Find(std::string_view name) const;

  // The text that `plimsoll docs NAME` prints: a page; a section, if `name` ends with "#" and the
  // anchor of its heading; the rows of a configuration key or of a section of keys; or a word of
  // the glossary. Throws a UserError that lists similar names.
  std::string Text(const std::string& name) const;

  // The page that has the text that Text() prints. Throws like Text().
  const DocumentationPage& PageOf(const std::string& name) const;

 private:
  std::optional<std::string> GlossaryEntry(const std::string& name) const;
  [[noreturn]] void Refuse(const std::string& name) const;

  std::string folder_;
  std::vector<DocumentationPage> pages_;
};

// The anchor that a heading has on a page: its words in lower case, joined by hyphens.
std::string AnchorOf(std::string_view heading);

}  // namespace plimsoll::trainer
