// The pages of docs/ as files next to the program: topics and single sections; and the rows of the
// configuration's keys, from its schema (trainer/config/reference.h).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::trainer {

struct DocumentationPage {
  std::string topic;  // the path in docs/ without .md, a README.md by its folder: "studies"
  std::string path;
  std::string title;  // of its first heading
};

class Documentation {
 public:
  // Reads what pages `folder` has, at any depth. UserError when a page cannot be read.
  explicit Documentation(const std::string& folder);

  // The folder docs/ nearest above the program (a wheel, an unpacked archive, a build), else that
  // nearest above the current folder (a clone). UserError when neither exists.
  static Documentation Here();

  const std::string& folder() const { return folder_; }
  // Sorted by topic, those of subfolders last.
  const std::vector<DocumentationPage>& pages() const { return pages_; }

  // A line for each page.
  std::string List() const;

  // The page that `name` means: a topic, its last part where only one page has it (unless that page
  // is one of configuration/), or a link to it ("docs/budget.md#when-nothing-fits"). nullptr: no
  // page.
  const DocumentationPage* Find(std::string_view name) const;

  // What `plimsoll docs NAME` prints: a page, its section where `name` ends with "#" and the anchor
  // of a heading, the rows of a key or of a section of keys, or a word of the glossary. UserError
  // that lists near names.
  std::string Text(const std::string& name) const;

  // The page that has what Text() prints. UserError as there.
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
