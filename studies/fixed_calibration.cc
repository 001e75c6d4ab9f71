#include "studies/fixed_calibration.h"

#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include "base/error.h"
#include "studies/process.h"
#include "trainer/settle/calibration.h"

namespace plimsoll::studies {
namespace {

namespace fs = std::filesystem;

constexpr double kPatienceSeconds = 10;  // as for other runs (runner.cc)

// The rows whose choices depend on calibrations, or else one that starts a process on a GPU, so
// that the GPU's profile is measured.
std::vector<const StudyRow*> RowsThatMeasure(const std::vector<StudyRow>& rows) {
  std::vector<const StudyRow*> measure;
  for (const StudyRow& row : rows) {
    if (row.calibrates) measure.push_back(&row);
  }
  if (!measure.empty()) return measure;
  for (const StudyRow& row : rows) {
    if (row.on_gpu) return {&row};
  }
  return {};
}

// False when `stopped` returned true. The run's own end doesn't matter: the row's real runs will
// show errors.
bool RunOneStep(const Study& study, const StudyRow& row, const std::string& folder,
                const std::function<bool()>& stopped) {
  fs::create_directories(folder);
  Process process({.arguments = TrainArguments(study, row, 0,
                                               {"run.dir=" + folder, "run.overwrite=true",
                                                "train.eval_every=0", StepsSet(1)}),
                   .out = folder + "/log.txt",
                   .error = folder + "/errors.txt"});
  while (!process.Poll()) {
    if (stopped()) {
      process.End(kPatienceSeconds);
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

}  // namespace

std::string FixCalibration(const Study& study, const std::vector<StudyRow>& rows,
                           const StudyDirectory& directory, const std::function<bool()>& stopped,
                           const std::function<void(const std::string&)>& say) {
  const std::string folder = directory.File("calibration");
  std::error_code error;
  if (fs::exists(folder, error)) return folder;
  for (const StudyRow* row : RowsThatMeasure(rows)) {
    say("measuring this machine for " + row->name);
    const std::string run = directory.File("runs/calibrating");
    const bool done = RunOneStep(study, *row, run, stopped);
    fs::remove_all(run, error);
    if (!done) return "";
  }
  const std::string partial = folder + ".partial", known = trainer::CalibrationFolder();
  fs::remove_all(partial, error);
  fs::create_directories(partial);
  if (!known.empty() && fs::is_directory(known, error)) {
    fs::copy(known, partial, fs::copy_options::recursive);
  }
  fs::rename(partial, folder);
  return folder;
}

}  // namespace plimsoll::studies
