#include "trainer/propose/choices.h"

#include <fmt/format.h>

#include "base/columns.h"
#include "trainer/config/load.h"
#include "trainer/config/schema.h"

namespace plimsoll::trainer {
namespace {

// Keys of the base that are dropped, because they follow from the device and the budget.
bool Follows(const std::string& key) {
  return key == "train.micro_batch" || key == "train.accumulate" || key == "train.blocks_first" ||
         key == "train.threads" || key == "run.dir" || key.starts_with("amp.") ||
         key.starts_with("checkpointing.") || key.starts_with("memory.") ||
         key.starts_with("parallel.");
}

}  // namespace

void Choices::Set(const std::string& key, const std::string& value, const std::string& why) {
  if (!IsAsked(key)) made_[key] = {value, why};
}

bool Choices::Keeps(const std::string& key) const {
  return IsAsked(key) || (base_.IsSet(key) && !Follows(key));
}

bool Choices::IsAsked(const std::string& key) const {
  return base_.IsSet(key) && base_.Origin(key) == "--set";
}

std::string Choices::Text() const {
  std::string yaml;
  const config::Key* before = nullptr;
  for (const config::Key& key : config::Schema()) {
    const auto choice = made_.find(key.path);
    if (choice == made_.end() && !Keeps(key.path)) continue;
    const config::KeyLines lines = config::LinesOf(key, before);
    before = &key;
    yaml += lines.opening;
    if (choice != made_.end() && !choice->second.why.empty()) {
      yaml += Comment(choice->second.why, lines.indent);
    }
    const std::string value = choice != made_.end() ? choice->second.value : key.Text(base_);
    yaml += fmt::format("{}{}: {}\n", lines.indent, lines.name, value);
  }
  return yaml + config::ObjectivesYaml(base_);
}

std::string Comment(const std::string& text, const std::string& indent) {
  const std::string start = indent + "# ";
  return Wrapped(start + text, kLineColumns, start) + "\n";
}

}  // namespace plimsoll::trainer
