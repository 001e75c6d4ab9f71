#include "trainer/language/input_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "base/folders.h"
#include "base/message.h"
#include "data/texts/examples.h"
#include "data/texts/text_file.h"
#include "formats/json.h"

namespace plimsoll::trainer {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> FilesOf(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (std::error_code ignored; !fs::is_directory(path, ignored)) {
      files.push_back(path);
      continue;
    }
    const std::vector<std::string> found = NamesIn(path).files;
    if (found.empty()) throw UserError(path + ": holds no files");
    for (const std::string& name : found) files.push_back((fs::path(path) / name).string());
  }
  return files;
}

// A line with one tab is a pair of texts; several are blanks of one text.
InputText Parse(const InputPlace& place, std::string_view line) {
  const size_t tab = line.find('\t');
  if (tab == std::string_view::npos || tab != line.rfind('\t')) {
    return {.place = place, .text = std::string(line)};
  }
  return {.place = place,
          .text = std::string(line.substr(0, tab)),
          .pair = std::string(line.substr(tab + 1))};
}

InputText ParseObject(const InputPlace& place, std::string_view line) {
  const auto object =
      formats::JsonObject::FromText(line, fmt::format("{}:{}", place.file, place.number));
  InputText text = {.place = place, .text = object.RequireString("text")};
  if (object.Has("text_pair")) text.pair = object.RequireString("text_pair");
  return text;
}

}  // namespace

std::vector<InputText> ReadInputTexts(const PredictCommand& command) {
  std::vector<InputText> texts;
  const auto place = [](const std::string& file, int64_t number) {
    return InputPlace{.file = file, .unit = "line", .number = number};
  };
  for (size_t i = 0; i < command.texts.size(); ++i) {
    texts.push_back(Parse(place("--text", static_cast<int64_t>(i) + 1), command.texts[i]));
  }
  for (const std::string& file : FilesOf(command.inputs)) {
    const MappedFile mapped = data::OpenText(file, &PrintNote);
    const bool objects = data::HoldsExamples(file);
    std::string_view rest = mapped.text();
    for (int64_t number = 1; !rest.empty(); ++number) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      std::string_view line = rest.substr(0, end);
      rest.remove_prefix(std::min(rest.size(), end + 1));
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.find_first_not_of(" \t\f\v") == std::string_view::npos) continue;
      texts.push_back(objects ? ParseObject(place(file, number), line)
                              : Parse(place(file, number), line));
    }
  }
  if (texts.empty()) throw UserError("plimsoll predict: the files hold no text");
  return texts;
}

}  // namespace plimsoll::trainer
