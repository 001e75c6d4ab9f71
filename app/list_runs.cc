// `plimsoll runs` lists the runs in a folder, and their states.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <ctime>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/commands.h"
#include "base/amounts.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/folder_lock.h"
#include "base/input_file.h"
#include "base/message.h"
#include "base/statistics.h"
#include "base/terminal.h"
#include "trainer/record/run_status.h"
#include "trainer/save_and_resume/way_on.h"

namespace plimsoll::trainer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

struct ListedRun {
  std::string path;  // path in the form that other commands take
  std::string name, notes;
  std::vector<std::string> tags;
  std::string state;                // "running", "done", "stopped", "failed"
  std::string reason;               // why the run ended, in words; for a running run, its process
  std::optional<int64_t> snapshot;  // step of the newest snapshot of an interrupted run
  std::string resume_command = "";  // command that resumes the run; empty: impossible or unknown
  int64_t steps = 0;                // steps made so far
  std::optional<int64_t> of_steps;  // steps that the run is to make
  std::optional<double> loss, best_eval_loss;
  std::optional<double> tokens_per_s;   // median speed of the newest steps
  std::optional<int64_t> memory_bytes;  // memory of the process on a GPU, else of the arena
  double changed = 0;                   // time of the last change of metrics, in seconds since 1970
};

constexpr int kDepth = 3;        // levels of folders to search; the rows of a study are within them
constexpr size_t kNewest = 100;  // steps used for the speed
constexpr size_t kMostText = 40;  // longest printed name, in columns

std::optional<double> NumberIn(const json& row, const char* name) {
  const auto found = row.find(name);
  if (found == row.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

// Most lines are only scanned and not parsed: a long run has hundreds of thousands.
void ReadRows(const std::string& path, ListedRun& run) {
  std::ifstream file = OpenFile(path);
  std::deque<std::string> newest;
  const auto parse = [](const std::string& line) {
    json row = json::parse(line, nullptr, /*allow_exceptions=*/false);
    return row.is_object() ? row : json::object();
  };
  for (std::string line; std::getline(file, line);) {
    if (file.eof()) break;  // a line without a newline was cut off
    if (line.find("\"eval_loss\"") == line.npos) {
      newest.push_back(line);
      if (newest.size() > kNewest) newest.pop_front();
    } else if (const auto loss = NumberIn(parse(line), "eval_loss")) {
      run.best_eval_loss = std::min(*loss, run.best_eval_loss.value_or(*loss));
    }
  }
  std::vector<double> speeds;
  for (const std::string& line : newest) {
    const json row = parse(line);
    if (!row.contains("loss")) continue;  // the row of a rollback has no loss
    run.loss = NumberIn(row, "loss");
    if (const auto step = NumberIn(row, "step")) run.steps = static_cast<int64_t>(*step) + 1;
    if (const auto speed = NumberIn(row, "tokens_per_s")) speeds.push_back(*speed);
    auto memory = NumberIn(row, "gpu_bytes");
    if (!memory) memory = NumberIn(row, "arena_bytes");
    if (memory) run.memory_bytes = static_cast<int64_t>(*memory);
  }
  if (!speeds.empty()) run.tokens_per_s = QuartilesOf(speeds).median;
}

ListedRun ReadRun(const std::string& path) {
  ListedRun run;
  run.path = path;
  const std::string metrics = path + "/metrics.jsonl";
  struct stat status = {};
  if (stat(metrics.c_str(), &status) == 0) {
    run.changed = static_cast<double>(status.st_mtim.tv_sec) +
                  1e-9 * static_cast<double>(status.st_mtim.tv_nsec);
  }
  ReadRows(metrics, run);
  using State = RunStatus::State;
  const auto said = ReadRunStatus(path);
  // Runs of a version that wrote no run.json are done if they have a summary.
  std::error_code error;
  State state = fs::exists(path + "/summary.json", error) ? State::kDone : State::kStopped;
  if (said) {
    run.name = said->name;
    run.notes = said->notes;
    run.tags = said->tags;
    run.reason = said->reason;
    run.of_steps = said->steps;
    // A "running" run without a lock holder was killed.
    state = said->state == State::kRunning ? State::kStopped : said->state;
  }
  if (const auto holder = LockHolder(path)) {
    state = State::kRunning;
    run.reason = *holder;
  }
  run.state = Name(state);
  if (state == State::kRunning || state == State::kDone) return run;
  run.snapshot = NewestSnapshot(path);
  if (said && run.snapshot) run.resume_command = said->resume_command;
  return run;
}

void Collect(const std::string& folder, int depth, std::vector<ListedRun>& runs) {
  std::error_code error;
  if (fs::exists(folder + "/config.yaml", error) && fs::exists(folder + "/metrics.jsonl", error)) {
    runs.push_back(ReadRun(folder));
    return;
  }
  if (depth == 0) return;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code no_folder;
    if (entry->is_directory(no_folder)) Collect(entry->path().string(), depth - 1, runs);
  }
}

std::string AgeText(double changed) {
  const int64_t s = std::max<int64_t>(0, std::time(nullptr) - static_cast<int64_t>(changed));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min", s / 60);
  if (s < 48 * 3600) return fmt::format("{} h", s / 3600);
  return Counted(s / (24 * 3600), "day");
}

template <typename T, typename Format>
std::string OrDash(const std::optional<T>& value, const Format& format) {
  return value ? format(*value) : "-";
}

size_t Width(const std::string& text) {  // continuation bytes of UTF-8 take no column
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string Cut(const std::string& text, size_t columns) {
  if (columns == 0 || Width(text) <= columns) return text;
  std::string cut;
  size_t width = 0;
  for (const char c : text) {
    width += (c & 0xC0) != 0x80;
    if (width == columns) return cut + "…";
    cut += c;
  }
  return cut;
}

// Cuts text at the front: the end of a path tells most.
std::string CutFront(const std::string& text, size_t columns) {
  size_t width = Width(text), begin = 0;
  if (width <= columns) return text;
  for (; begin < text.size() && (width >= columns || (text[begin] & 0xC0) == 0x80); ++begin) {
    width -= (text[begin] & 0xC0) != 0x80;
  }
  return "…" + text.substr(begin);
}

// Replaces control characters by spaces, so that a name is printed on one line.
std::string OneLine(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < ' ' || c == 0x7F; }, ' ');
  return text;
}

// The runs in a folder and in its subfolders, the newest first. If `folder` is itself a run
// directory, only that run. Skips folders that are no runs or cannot be read. Throws a UserError if
// the folder doesn't exist.
std::vector<ListedRun> ListRuns(const std::string& folder) {
  std::string path = folder;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    throw UserError(folder + ": is no folder; name one that holds runs: plimsoll runs FOLDER");
  }
  std::vector<ListedRun> runs;
  Collect(path, kDepth, runs);
  std::ranges::sort(runs, [](const ListedRun& a, const ListedRun& b) {
    return a.changed != b.changed ? a.changed > b.changed : a.path < b.path;
  });
  return runs;
}

// A table, each line cut to `columns` (0: not cut). The commands that resume the newest interrupted
// runs follow the table. Ends with a newline.
std::string RunsTable(const std::vector<ListedRun>& runs, size_t columns) {
  const bool named = std::ranges::any_of(runs, [](const auto& run) { return !run.name.empty(); });
  std::vector<std::vector<std::string>> rows = {
      {"run", "state", "steps", "loss", "held out", "tokens/s", "memory", "age"}};
  constexpr size_t kFirstNumber = 2, kNumbers = 6;
  if (named) rows[0].push_back("name");
  rows[0].push_back("tags");
  for (const ListedRun& run : runs) {
    const auto loss = [](double value) { return fmt::format("{:.4f}", value); };
    rows.push_back(
        {CutFront(OneLine(run.path), kMostText), run.state,
         run.of_steps ? fmt::format("{}/{}", run.steps, *run.of_steps) : fmt::to_string(run.steps),
         OrDash(run.loss, loss), OrDash(run.best_eval_loss, loss),
         OrDash(run.tokens_per_s, FormatCount), OrDash(run.memory_bytes, FormatBytes),
         AgeText(run.changed)});
    if (named) rows.back().push_back(Cut(OneLine(run.name), kMostText));
    rows.back().push_back(OneLine(fmt::format("{}", fmt::join(run.tags, ", "))));
  }
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - Width(row[i]), ' ');
      const bool number = i >= kFirstNumber && i < kFirstNumber + kNumbers;
      line += (i > 0 ? "  " : "") + (number ? space + row[i] : row[i] + space);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += Cut(line, columns) + "\n";
  }
  // Lists the commands that resume the newest few runs.
  constexpr int kMostResumed = 5;
  int resumed = 0;
  for (const ListedRun& run : runs) {
    if (run.resume_command.empty() || ++resumed > kMostResumed) continue;
    text +=
        OneLine(fmt::format("{}: {} from the snapshot after {}", run.path,
                            ContinuesText(run.resume_command, 1), Counted(*run.snapshot, "step"))) +
        "\n";
  }
  return text;
}

std::string RunsJson(const std::vector<ListedRun>& runs) {
  const auto or_null = [](const auto& value) {
    return value ? ordered_json(*value) : ordered_json(nullptr);
  };
  ordered_json list = ordered_json::array();
  for (const ListedRun& run : runs) {
    list.push_back({{"path", run.path},
                    {"name", run.name},
                    {"tags", run.tags},
                    {"notes", run.notes},
                    {"state", run.state},
                    {"reason", run.reason},
                    {"snapshot", or_null(run.snapshot)},
                    {"resume_command", run.resume_command},
                    {"steps", run.steps},
                    {"of_steps", or_null(run.of_steps)},
                    {"loss", or_null(run.loss)},
                    {"best_eval_loss", or_null(run.best_eval_loss)},
                    {"tokens_per_s", or_null(run.tokens_per_s)},
                    {"memory_bytes", or_null(run.memory_bytes)},
                    {"changed", run.changed}});
  }
  return list.dump(1, ' ', /*ensure_ascii=*/false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

void AddRuns(CLI::App& app) {
  struct Options {
    std::string folder = "runs";
    bool json = false;
  };
  const auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("runs", "list runs, the newest first");
  command->add_option("folder", o->folder, "where they lie")->capture_default_str();
  command->add_flag("--json", o->json, "for programs");
  command->callback([o] {
    const std::vector<ListedRun> runs = ListRuns(o->folder);
    const Terminal terminal = Terminal::Of(STDOUT_FILENO);
    PrintAnswer(o->json ? RunsJson(runs) : RunsTable(runs, terminal.exists ? terminal.columns : 0));
  });
}

}  // namespace plimsoll::trainer
