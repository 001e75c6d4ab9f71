#include "reports/event_file.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/error.h"
#include "reports/curve_name.h"
#include "reports/event_encoding.h"

namespace plimsoll::reports {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "host";
}

}  // namespace

EventFile::EventFile(const std::string& folder)
    : path_(folder + "/events.out.tfevents." + std::to_string(static_cast<int64_t>(Now())) + "." +
            HostName() + "." + std::to_string(getpid())),
      file_(std::fopen(path_.c_str(), "ab")) {
  if (file_ == nullptr) throw UserError(path_ + ": cannot write (" + std::strerror(errno) + ")");
  Write(Record(VersionEvent(Now())));
}

EventFile::~EventFile() { std::fclose(file_); }

void EventFile::Restart(int64_t step) { Write(Record(RestartEvent(Now(), step))); }

void EventFile::AddRow(const nlohmann::ordered_json& row) {
  const double now = Now();
  const int64_t step = row.at("step");
  std::string records;
  for (const auto& [key, value] : row.items()) {
    if (!value.is_number() || key == "step") continue;
    records += Record(ScalarEvent(now, step, CurveName(key), value));
  }
  Write(records);
}

void EventFile::AddText(const std::string& tag, const std::string& text, int64_t step) {
  // In Markdown, four spaces make a line verbatim.
  std::string indented = "    ";
  for (char c : text) {
    indented += c;
    if (c == '\n') indented += "    ";
  }
  Write(Record(TextEvent(Now(), step, tag, indented)));
}

void EventFile::Write(const std::string& records) {
  if (std::fwrite(records.data(), 1, records.size(), file_) != records.size() ||
      std::fflush(file_) != 0) {
    throw UserError(path_ + ": cannot write (" + std::strerror(errno) + ")", ExitCode::kInternal);
  }
}

}  // namespace plimsoll::reports
