// `plimsoll docs` lists the pages, shows a page or a configuration key in the terminal, or opens
// the page in a browser.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "app/commands.h"
#include "app/documentation.h"
#include "base/error.h"
#include "base/message.h"
#include "base/shell_quoted.h"
#include "base/terminal.h"

namespace plimsoll::trainer {
namespace {

// Returns false if the pager cannot be run. A pager that the user closes early counts as success.
bool ShowInPager(const std::string& text) {
  const char* const chosen = std::getenv("PAGER");
  const std::string pager = chosen != nullptr && *chosen != '\0' ? chosen : "less";
  setenv("LESS", "FRX", /*overwrite=*/0);  // a page that fits the screen stays visible
  std::FILE* const pipe = popen(pager.c_str(), "w");
  if (pipe == nullptr) return false;
  std::fwrite(text.data(), 1, text.size(), pipe);
  const int status = pclose(pipe);
  // Exit codes of the shell for a program that it cannot run.
  constexpr int kNotFound = 127, kNotExecutable = 126;
  return !WIFEXITED(status) ||
         (WEXITSTATUS(status) != kNotFound && WEXITSTATUS(status) != kNotExecutable);
}

// The page on the site that tools/docs.sh has built; without the site, the Markdown file.
std::string PageToOpen(const Documentation& documentation, const std::string& name) {
  const std::filesystem::path folder = documentation.folder();
  const std::filesystem::path site = folder.parent_path() / ".cache/docs/site";
  const size_t anchor = name.find('#');
  std::filesystem::path built = site / "index.html", file = folder / "commands.md";
  if (!name.empty()) {
    file = documentation.PageOf(name).path;
    built = site / file.lexically_relative(folder).replace_extension(".html");
    if (file.filename() == "README.md") built.replace_filename("index.html");
  }
  std::error_code error;
  if (!std::filesystem::is_regular_file(built, error)) return file.string();
  return "file://" + built.string() + (anchor == name.npos ? "" : name.substr(anchor));
}

void OpenInBrowser(const std::string& target) {
  PrintAnswer(target + "\n");
  const int status = std::system(fmt::format("xdg-open {}", ShellQuoted(target)).c_str());
  if (status == 0) return;
  throw UserError(
      fmt::format("xdg-open {}: failed; is a browser installed? plimsoll docs TOPIC prints pages",
                  ShellQuoted(target)));
}

}  // namespace

void AddDocs(CLI::App& app) {
  struct Options {
    std::string topic;
    bool open = false;
  };
  const auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("docs", "the documentation: a page, or what a key means");
  command->add_option(
      "topic", o->topic,
      "a page (budget), its section (budget#when-nothing-fits), a key (memory.budget), a section "
      "of keys (memory) or a word of the glossary (arena); without it, the list of pages");
  command->add_flag(
      "--open", o->open,
      "in a browser (xdg-open): the site that tools/docs.sh has built, else the file");
  command->callback([o] {
    const Documentation documentation = Documentation::Here();
    if (o->open) return OpenInBrowser(PageToOpen(documentation, o->topic));
    const std::string text = o->topic.empty() ? documentation.List() : documentation.Text(o->topic);
    if (!Terminal::Of(STDOUT_FILENO).exists || !ShowInPager(text)) PrintAnswer(text);
  });
}

}  // namespace plimsoll::trainer
