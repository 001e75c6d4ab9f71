#include "trainer/announcement.h"

#include <fmt/format.h>

#include "base/amounts.h"
#include "base/bytes.h"
#include "base/version.h"
#include "memory/report.h"
#include "trainer/plan/code_products.h"
#include "trainer/resolve/compile_from.h"
#include "trainer/resolve/run_device.h"

namespace plimsoll::trainer {

std::string Header(const config::RunConfig& config, const models::Model& model) {
  const CompileOptions options = CompileFrom(config, model);
  const std::string gpu = GpuFrom(config);
  return fmt::format("plimsoll {} ({}): {} with {}, {}, run in {}\n", Version(), Commit(),
                     model.family(), ParametersText(model, options),
                     gpu.empty() ? Counted(options.threads, "thread") : "on " + gpu,
                     config.run.dir);
}

std::string Announcement(const Announced& run) {
  std::string text = run.data;
  text += fmt::format("built, differentiated and planned in {:.0f} ms\n{}\n",
                      run.compile_seconds * 1e3, memory::Summary(run.compiled.plan));
  if (run.compiled.options.amp.fp8.enabled) text += Text(CountCodeProducts(run.compiled)) + "\n";
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
