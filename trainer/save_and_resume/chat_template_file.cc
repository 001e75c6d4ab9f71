#include "trainer/save_and_resume/chat_template_file.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/folders.h"
#include "base/mapped_file.h"
#include "base/message.h"
#include "data/chats/chat_template.h"
#include "trainer/config/value.h"
#include "trainer/save_and_resume/picture_preparation.h"
#include "trainer/save_and_resume/run_record.h"

namespace plimsoll::trainer {

std::string ChatTemplateOfRun(const config::RunConfig& config,
                              const snapshots::Snapshot* snapshot) {
  if (!config.data.chat_template.empty() || snapshot == nullptr) return config.data.chat_template;
  const RunRecord record = ParseRunRecord(snapshot->manifest().run, snapshot->path());
  const auto found = record.config.find("data.chat_template");
  if (found == record.config.end() || found->second == config::ScalarText("")) return "";
  return RecordedData(record, snapshot->path()).data.chat_template;
}

std::string ChatTemplateOfRun(const TrainedModel& trained) {
  return ChatTemplateOfRun(trained.config(), trained.snapshot ? &*trained.snapshot : nullptr);
}

std::string ChatTemplateText(const std::string& chat_template, const std::string& copy) {
  if (chat_template.empty()) return "";
  try {
    if (!copy.empty() && Exists(copy)) return std::string(MappedFile(copy).text());
    return data::ReadChatTemplate({.chat_template = chat_template}).text;
  } catch (const UserError& error) {
    PrintWarning(
        fmt::format("no {} next to the weights: {}", data::kChatTemplateFile, error.what()));
    return "";
  }
}

}  // namespace plimsoll::trainer
