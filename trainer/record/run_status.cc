#include "trainer/record/run_status.h"

#include <array>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/input_file.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::ordered_json;
using State = RunStatus::State;

constexpr std::array kStates = {State::kRunning, State::kDone, State::kStopped, State::kFailed};

}  // namespace

const char* Name(State state) {
  switch (state) {
    case State::kRunning:
      return "running";
    case State::kDone:
      return "done";
    case State::kStopped:
      return "stopped";
    case State::kFailed:
      return "failed";
  }
  return "";
}

RunStatus StartedNow(const config::RunConfig& config, const std::string& resume_command) {
  return {.name = config.run.name,
          .notes = config.run.notes,
          .tags = config.run.tags,
          .reason = {},
          .steps = config.train.StepsToMake(),
          .started = std::time(nullptr),
          .resume_command = resume_command};
}

std::string ToJson(const RunStatus& status) {
  return ordered_json{{"name", status.name},
                      {"tags", status.tags},
                      {"notes", status.notes},
                      {"state", Name(status.state)},
                      {"reason", status.reason},
                      {"steps", status.steps},
                      {"started", status.started},
                      {"ended", status.ended},
                      {"resume_command", status.resume_command}}
             .dump(1) +
         "\n";
}

std::optional<RunStatus> ReadRunStatus(const std::string& run_directory) {
  std::ifstream file = OpenFile(run_directory + "/run.json");
  const ordered_json json = ordered_json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  RunStatus status;
  try {
    status.name = json.at("name");
    json.at("tags").get_to(status.tags);
    status.notes = json.at("notes");
    status.reason = json.at("reason");
    status.steps = json.at("steps");
    status.started = json.at("started");
    status.ended = json.at("ended");
    // Missing in files of earlier versions.
    status.resume_command = json.value("resume_command", "");
    for (const State state : kStates) {
      if (json.at("state") == Name(state)) status.state = state;
    }
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  return status;
}

}  // namespace plimsoll::trainer
