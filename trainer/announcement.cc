#include "trainer/announcement.h"

#include <fmt/format.h>

#include "base/amounts.h"
#include "base/bytes.h"
#include "base/version.h"
#include "memory/report.h"
#include "trainer/plan/plan_json.h"

namespace plimsoll::trainer {
namespace {

// "3.2 epochs", of all steps of the run together.
std::string EpochsText(const Announced& run, size_t part) {
  const int64_t sequences = run.loader.FirstSequence(run.config.train.steps);
  const auto read = static_cast<double>(run.loader.mixture().Count(part, sequences));
  return fmt::format("{:.3g} epochs",
                     read / static_cast<double>(run.loader.parts()[part].windows()));
}

std::string DataText(const Announced& run) {
  const std::vector<data::MixturePart>& parts = run.data.train;
  const auto step =
      static_cast<double>(run.loader.sequences_per_step() * run.config.model.sequence());
  std::string text = fmt::format(
      "data: {} tokens to train on, of a vocabulary of {}, {} per step{}{}\n",
      FormatCount(static_cast<double>(run.loader.tokens())), models::TextSizesOf(run.model).vocab,
      FormatCount(step), run.config.data.train.size() == 1 ? ", " + EpochsText(run, 0) : "",
      run.held_out_targets ? fmt::format(", {} held out tokens evaluated every {} steps",
                                         FormatCount(static_cast<double>(*run.held_out_targets)),
                                         run.config.train.eval_every)
                           : "");
  if (parts.size() == 1) return text;
  for (size_t part = 0; part < parts.size(); ++part) {
    const int64_t tokens = run.loader.parts()[part].stream().size();
    text += fmt::format("  {}: {} tokens, {:.3g} % of the sequences, {}\n", parts[part].name,
                        FormatCount(static_cast<double>(tokens)),
                        100 * run.loader.mixture().share(part), EpochsText(run, part));
  }
  return text;
}

}  // namespace

std::string Announcement(const Announced& run) {
  const bool on_cpu = run.device.kind() == runtime::DeviceKind::kCpu;
  std::string text = fmt::format(
      "plimsoll {} ({}): {} with {}, {}, run in {}\n", Version(), Commit(), run.model.family(),
      ParametersText(run.model, run.compiled.options),
      on_cpu ? fmt::format("{} threads", run.compiled.options.threads) : "on " + run.device.name(),
      run.config.run.dir);
  text += DataText(run);
  text += fmt::format("built, differentiated and planned in {:.0f} ms\n{}\n",
                      run.compile_seconds * 1e3, memory::Summary(run.compiled.plan));
  for (const std::string& line : {run.gpu, run.resumed}) {
    if (!line.empty()) text += line + "\n";
  }
  if (run.reserved_bytes) {
    text += fmt::format(
        "memory.allocator: caching, {} reserved so far; the arena is planned to compare with, "
        "and not allocated\n",
        FormatBytes(*run.reserved_bytes));
  }
  return text;
}

}  // namespace plimsoll::trainer
