#include "trainer/resolve/calibration.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/output_file.h"
#include "base/version.h"
#include "formats/json.h"
#include "runtime/cpu/processor.h"
#include "runtime/cuda/cuda_call_timer.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/gpu_memory.h"
#include "runtime/process_memory.h"

namespace plimsoll::trainer {
namespace {

using graph::Node;
using graph::Program;
using memory::CostModel;
using memory::TimedCall;
using nlohmann::ordered_json;

// Raise this number when the set of timed calls or the cost model's built-in rates change.
constexpr int64_t kVersion = 6;
constexpr size_t kMostPoints = 20000;

// The contents of a calibration file.
struct Timings {
  std::vector<TimedCall> points;
  std::string first, last;  // first and last day of timing: "2026-11-20"

  std::string When() const {
    if (points.empty()) return "";
    return first == last ? "on " + first : fmt::format("from {} to {}", first, last);
  }
};

std::string Today() { return fmt::format("{:%Y-%m-%d}", fmt::localtime(std::time(nullptr))); }

// The file of one device: a processor with a number of threads, or a GPU, which counts 0 threads.
class CalibrationFile {
 public:
  CalibrationFile(const std::string& device, int threads, const CalibrationOptions& options)
      : threads_(threads), options_(options), device_(device) {
    path_ = CalibrationPath(options.folder, "calibration", device,
                            threads > 0 ? fmt::format("-{}-threads", threads) : "");
  }

  const std::string& device() const { return device_; }

  // Returns no timings when no file exists, or when the file is of another version.
  Timings Read() const {
    Timings timings;
    std::error_code error;
    if (path_.empty() || !std::filesystem::exists(path_, error)) return timings;
    try {
      const formats::JsonObject file = formats::JsonObject::FromFile(path_);
      if (file.RequireInt("version") != kVersion || file.RequireString("program") != Version() ||
          file.RequireString("device") != device_ || file.RequireInt("threads") != threads_) {
        return timings;
      }
      timings.first = file.RequireString("first");
      timings.last = file.RequireString("last");
      for (const formats::JsonObject& object : file.RequireObjects("points")) {
        TimedCall point{object.RequireString("signature"), object.RequireString("kind"),
                        object.RequireFloat("ideal"),      object.RequireFloat("seconds"),
                        object.RequireFloat("flops"),      object.RequireFloat("bytes")};
        constexpr double kDay = 86400;
        if (!(point.ideal > 0 && point.ideal < kDay)) object.Fail("ideal", "no plausible time");
        if (!(point.seconds > 0 && point.seconds < kDay)) {
          object.Fail("seconds", "no plausible time");
        }
        timings.points.push_back(std::move(point));
      }
    } catch (const UserError& problem) {
      Say(fmt::format("warning: {}; the calibration is made anew", problem.what()));
      timings = {};
    }
    return timings;
  }

  void Write(Timings timings) const {
    if (path_.empty()) return;
    std::vector<TimedCall>& points = timings.points;
    if (points.size() > kMostPoints) {  // the oldest points come first
      points.erase(points.begin(), points.end() - kMostPoints);
    }
    ordered_json json = {{"version", kVersion},
                         {"program", Version()},
                         {"device", device_},
                         {"threads", threads_},
                         {"first", timings.first},
                         {"last", timings.last},
                         {"points", ordered_json::array()}};
    for (const TimedCall& point : points) {
      json["points"].push_back({{"signature", point.signature},
                                {"kind", point.kind},
                                {"ideal", point.ideal},
                                {"seconds", point.seconds},
                                {"flops", point.flops},
                                {"bytes", point.bytes}});
    }
    try {
      std::error_code error;
      std::filesystem::create_directories(options_.folder, error);
      WriteWhole(path_, json.dump(1) + "\n");
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
  std::string path_;  // empty means no file
};

// A call to time, and one of the nodes that make this call.
struct Wanted {
  const Program* program;
  const Node* node;
  double ideal;       // predicted seconds of one call
  double importance;  // predicted seconds of all these calls together
};

std::vector<Wanted> FindWanted(std::span<const Program* const> programs, const CostModel& model) {
  std::map<std::string, Wanted> by_signature;
  for (const Program* program : programs) {
    for (const Node& node : program->nodes()) {
      if (node.op->view || memory::IsOfRanks(*node.op)) continue;
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

// For calls that share one launch, time grows with their bytes, which timing a small call does not
// show. So only the largest call of each kind is timed, unless a larger call was timed before. The
// times of smaller calls are scaled from it.
std::vector<Wanted> LargestOfGroups(const std::vector<Wanted>& wanted,
                                    const std::vector<TimedCall>& points) {
  std::map<std::string, double> largest;
  for (const TimedCall& point : points) {
    double& most = largest[point.kind];
    most = std::max(most, point.ideal);
  }
  const auto kind = [](const Wanted& want) {
    return memory::KindOf(want.program->CallOf(*want.node).get());
  };
  for (const Wanted& want : wanted) {
    double& most = largest[kind(want)];
    most = std::max(most, want.ideal);
  }
  std::vector<Wanted> result;
  for (const Wanted& want : wanted) {
    if (!runtime::CudaCallTimer::Grouped(*want.node) || want.ideal >= largest[kind(want)]) {
      result.push_back(want);
    }
  }
  return result;
}

// Times the wanted calls, adds them to the model and writes them to the file.
void TimeAll(const std::vector<Wanted>& wanted, const CalibrationOptions& options,
             const CalibrationFile& file, Timings timings, CostModel& model,
             const std::function<double(const Wanted&)>& time) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  int timed = 0;
  for (const Wanted& want : wanted) {
    if (want.ideal > options.call_seconds) continue;
    if (elapsed() > options.total_seconds) break;
    const double seconds = time(want);
    if (seconds <= 0) continue;
    const Program::Call call = want.program->CallOf(*want.node);
    const graph::Cost cost = graph::CostOf(call.get());
    timings.points.push_back({memory::SignatureOf(call.get()), memory::KindOf(call.get()),
                              want.ideal, seconds, cost.flops, cost.bytes});
    model.Add(timings.points.back());
    ++timed;
  }
  if (timed == 0) return;
  timings.last = Today();
  if (timings.first.empty()) timings.first = timings.last;
  model.SetWhen(timings.When());
  if (options.say && elapsed() > 1) {
    options.say(fmt::format("timed {} ops on this device in {:.1f} s ({})", timed, elapsed(),
                            file.device()));
  }
  file.Write(std::move(timings));
}

void AddAll(const Timings& timings, CostModel& model) {
  for (const TimedCall& point : timings.points) model.Add(point);
  model.SetWhen(timings.When());
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

std::string CalibrationFolder(const config::RunConfig& config) {
  return config.memory.calibration.empty() ? CalibrationFolder() : config.memory.calibration;
}

std::string CalibrationPath(const std::string& folder, const std::string& kind,
                            const std::string& device, const std::string& more) {
  if (folder.empty()) return "";
  std::string name;
  for (const char c : device) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  return fmt::format("{}/{}-{}{}.json", folder, kind, name, more);
}

CostModel LoadCalibration(int threads, const CalibrationOptions& options) {
  CostModel model(threads);
  const CalibrationFile file(runtime::ProcessorName(), threads, options);
  AddAll(file.Read(), model);
  return model;
}

CostModel Calibrate(std::span<const Program* const> programs, ThreadPool& pool,
                    const CalibrationOptions& options) {
  const CalibrationFile file(runtime::ProcessorName(), pool.size(), options);
  Timings timings = file.Read();
  CostModel model(pool.size());
  AddAll(timings, model);
  if (options.fixed) return model;
  const std::vector<Wanted> wanted = FindWanted(programs, model);
  if (wanted.empty()) return model;
  CallTimer timer(
      pool, options.scratch_bytes > 0 ? options.scratch_bytes : runtime::AvailableMemory() / 4);
  TimeAll(wanted, options, file, std::move(timings), model,
          [&](const Wanted& want) { return timer.Time(*want.program, *want.node); });
  return model;
}

CostModel CalibrateGpu(std::span<const Program* const> programs, const std::string& gpu,
                       ComputeCapability capability, const CalibrationOptions& options) {
  const CalibrationFile file(gpu, 0, options);
  Timings timings = file.Read();
  CostModel model(memory::DeviceRates::Gpu(gpu, capability));
  AddAll(timings, model);
  if (options.fixed || !runtime::CudaVisible()) return model;
  const std::vector<Wanted> wanted = LargestOfGroups(FindWanted(programs, model), timings.points);
  if (wanted.empty()) return model;
  runtime::CudaCallTimer timer;
  int64_t scratch = options.scratch_bytes;
  if (const auto meter = runtime::GpuMeter::Find(); meter && scratch == 0) {
    scratch = meter->Measure().free / 2;
  }
  TimeAll(wanted, options, file, std::move(timings), model,
          [&](const Wanted& want) { return timer.Time(*want.program, *want.node, scratch); });
  return model;
}

}  // namespace plimsoll::trainer
