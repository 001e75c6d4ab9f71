#include "trainer/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/output_file.h"
#include "base/version.h"
#include "formats/json.h"
#include "runtime/process_memory.h"
#include "runtime/processor.h"
#include "trainer/time_call.h"

namespace plimsoll::trainer {
namespace {

using graph::Node;
using graph::Program;
using memory::CostModel;
using memory::TimedCall;
using nlohmann::ordered_json;

// To be raised when what is timed, or the cost model's built-in rates, change.
constexpr int64_t kVersion = 1;
constexpr size_t kMostPoints = 20000;

// The file of one device.
class CalibrationFile {
 public:
  CalibrationFile(int threads, const CalibrationOptions& options)
      : threads_(threads), options_(options), device_(runtime::ProcessorName()) {
    if (options.folder.empty()) return;
    std::string name;
    for (char c : device_) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
    path_ = fmt::format("{}/calibration-{}-{}-threads.json", options.folder, name, threads);
  }

  const std::string& device() const { return device_; }

  // Nothing when there is no file, or none for this version.
  std::vector<TimedCall> Read() const {
    std::vector<TimedCall> points;
    std::error_code error;
    if (path_.empty() || !std::filesystem::exists(path_, error)) return points;
    try {
      const formats::JsonObject file = formats::JsonObject::FromFile(path_);
      if (file.RequireInt("version") != kVersion || file.RequireString("program") != Version() ||
          file.RequireString("device") != device_ || file.RequireInt("threads") != threads_) {
        return points;
      }
      for (const formats::JsonObject& object : file.RequireObjects("points")) {
        TimedCall point{object.RequireString("signature"), object.RequireString("kind"),
                        object.RequireFloat("ideal"), object.RequireFloat("seconds")};
        constexpr double kDay = 86400;
        if (!(point.ideal > 0 && point.ideal < kDay)) object.Fail("ideal", "no plausible time");
        if (!(point.seconds > 0 && point.seconds < kDay)) {
          object.Fail("seconds", "no plausible time");
        }
        points.push_back(std::move(point));
      }
    } catch (const UserError& problem) {
      Say(fmt::format("warning: {}; the calibration is made anew", problem.what()));
      points.clear();
    }
    return points;
  }

  void Write(std::vector<TimedCall> points) const {
    if (path_.empty()) return;
    if (points.size() > kMostPoints) {  // the oldest come first
      points.erase(points.begin(), points.end() - kMostPoints);
    }
    ordered_json json = {{"version", kVersion},
                         {"program", Version()},
                         {"device", device_},
                         {"threads", threads_},
                         {"points", ordered_json::array()}};
    for (const TimedCall& point : points) {
      json["points"].push_back({{"signature", point.signature},
                                {"kind", point.kind},
                                {"ideal", point.ideal},
                                {"seconds", point.seconds}});
    }
    try {
      std::error_code error;
      std::filesystem::create_directories(options_.folder, error);
      OutputFile file(path_);
      file.Write(json.dump(1) + "\n");
      file.Commit();
    } catch (const UserError& problem) {
      Say(fmt::format("warning: {}; the calibration is not kept", problem.what()));
    }
  }

 private:
  void Say(const std::string& text) const {
    if (options_.say) options_.say(text);
  }

  int threads_;
  const CalibrationOptions& options_;
  std::string device_;
  std::string path_;  // empty: no file
};

// A call that is to be timed, by one of the nodes that make it.
struct Wanted {
  const Program* program;
  const Node* node;
  double ideal;       // of one call
  double importance;  // of all calls together
};

std::vector<Wanted> FindWanted(std::span<const Program* const> programs, const CostModel& model) {
  std::map<std::string, Wanted> by_signature;
  for (const Program* program : programs) {
    for (const Node& node : program->nodes()) {
      if (node.op->view) continue;
      const Program::Call call = program->CallOf(node);
      if (model.Knows(call.get())) continue;
      const double ideal = model.Ideal(call.get());
      const auto [found, fresh] = by_signature.try_emplace(memory::SignatureOf(call.get()),
                                                           Wanted{program, &node, ideal, 0.0});
      found->second.importance += ideal;
    }
  }
  std::vector<Wanted> wanted;
  for (const auto& [signature, want] : by_signature) wanted.push_back(want);
  std::stable_sort(wanted.begin(), wanted.end(),
                   [](const Wanted& a, const Wanted& b) { return a.importance > b.importance; });
  return wanted;
}

}  // namespace

std::string CalibrationFolder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') {
    return std::string(cache) + "/plimsoll";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    return std::string(home) + "/.cache/plimsoll";
  }
  return "";
}

CostModel LoadCalibration(int threads, const CalibrationOptions& options) {
  CostModel model(threads);
  for (const TimedCall& point : CalibrationFile(threads, options).Read()) model.Add(point);
  return model;
}

CostModel Calibrate(std::span<const Program* const> programs, ThreadPool& pool,
                    const CalibrationOptions& options) {
  const CalibrationFile file(pool.size(), options);
  std::vector<TimedCall> points = file.Read();
  CostModel model(pool.size());
  for (const TimedCall& point : points) model.Add(point);

  const std::vector<Wanted> wanted = FindWanted(programs, model);
  if (wanted.empty()) return model;
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  CallTimer timer(pool);
  int timed = 0;
  for (const Wanted& want : wanted) {
    if (want.ideal > options.call_seconds) continue;
    const int64_t scratch = ScratchBytes(*want.program, *want.node, pool.size());
    if (scratch > runtime::AvailableMemory() / 4) continue;
    if (elapsed() > options.total_seconds) break;
    const double seconds = timer.Time(*want.program, *want.node);
    if (seconds <= 0) continue;
    const Program::Call call = want.program->CallOf(*want.node);
    points.push_back(
        {memory::SignatureOf(call.get()), memory::KindOf(call.get()), want.ideal, seconds});
    model.Add(points.back());
    ++timed;
  }
  if (timed == 0) return model;
  if (options.say && elapsed() > 1) {
    options.say(fmt::format("timed {} ops on this device in {:.1f} s ({}, {} threads)", timed,
                            elapsed(), file.device(), pool.size()));
  }
  file.Write(std::move(points));
  return model;
}

}  // namespace plimsoll::trainer
