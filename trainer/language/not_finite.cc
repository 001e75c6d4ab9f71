#include "trainer/language/not_finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "adapters/lora.h"

namespace plimsoll::trainer {

NotFinite ExplainNotFinite(const TrainedModel& trained, Session& session, const std::string& dtype,
                           const std::string& what) {
  const char* const wider = "try --dtype bf16 or fp32, whose numbers reach further";
  std::vector<models::ParameterInfo> parameters = trained.model->parameters();
  std::ranges::copy(adapters::Parameters(session.compiled().options.lora),
                    std::back_inserter(parameters));
  for (const models::ParameterInfo& parameter : parameters) {
    if (!session.Carries(parameter.name)) continue;  // some programs lack some heads
    const std::vector<float> values = session.ReadParameter(parameter.name);
    if (std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) continue;
    return NotFinite(fmt::format(
        "{}: {}: {} holds NaN or infinity; {}", trained.folder, what, parameter.name,
        dtype == "fp16" ? wider
                        : "take weights from before training went wrong, such as a snapshot's"));
  }
  return NotFinite(
      fmt::format("{}: {}, though all weights are finite: numbers overflow on the way{}",
                  trained.folder, what, dtype == "fp16" ? fmt::format("; {}", wider) : ""));
}

}  // namespace plimsoll::trainer
