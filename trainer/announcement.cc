#include "trainer/announcement.h"

#include <fmt/format.h>

#include "base/amounts.h"
#include "base/bytes.h"
#include "base/version.h"
#include "memory/report.h"
#include "trainer/plan/plan_json.h"

namespace plimsoll::trainer {
std::string Announcement(const Announced& run) {
  const bool on_cpu = run.device.kind() == runtime::DeviceKind::kCpu;
  std::string text = fmt::format(
      "plimsoll {} ({}): {} with {}, {}, run in {}\n", Version(), Commit(), run.model.family(),
      ParametersText(run.model, run.compiled.options),
      on_cpu ? fmt::format("{} threads", run.compiled.options.threads) : "on " + run.device.name(),
      run.config.run.dir);
  text += run.data;
  text += fmt::format("built, differentiated and planned in {:.0f} ms\n{}\n",
                      run.compile_seconds * 1e3, memory::Summary(run.compiled.plan));
  for (const std::string& line : {run.gpu, run.link, run.resumed}) {
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
