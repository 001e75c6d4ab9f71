// Part of trainer/step/session.h: loads a checkpoint's weights chunk by chunk. Each rank loads its
// own shard.
#include <algorithm>
#include <utility>

#include "models/huggingface.h"
#include "trainer/step/reading_buffers.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

void Session::LoadWeights(const models::Model& model, const std::string& folder) {
  const adapters::Lora& lora = compiled_.options.lora;
  if (!lora.enabled()) {
    Load(model, folder, models::Misfits::kRefused);
    return;
  }
  std::set<std::string> left_out;
  for (const models::ParameterInfo& parameter : lora.saved) left_out.insert(parameter.name);
  Load(model, folder, models::Misfits::kFitted, std::move(left_out));
}

std::vector<std::string> Session::StartFrom(const models::Model& model, const std::string& folder,
                                            uint64_t seed) {
  std::vector<std::string> fresh;
  for (const models::ParameterInfo& parameter : Load(model, folder, models::Misfits::kAllowed)) {
    Initialize(parameter, seed);
    fresh.push_back(parameter.name);
  }
  for (const models::SingularStates& states : model.singular_states()) {
    const auto is_fresh = [&](const std::string& name) {
      return std::ranges::find(fresh, name) != fresh.end();
    };
    if (is_fresh(states.u) || is_fresh(states.v)) StartSingularStates(states);
  }
  return fresh;
}

std::vector<models::ElementRange> Session::Owned(const std::string& name) const {
  std::vector<models::ElementRange> ranges;
  if (!Carries(name)) return ranges;  // not every program reads states or a head
  ForStored(name, [&](const runtime::StoredParameter&, const Stripe& stripe) {
    for (int64_t i = 0; i < stripe.count;) {
      const int64_t together = std::min(stripe.Together(i), stripe.count - i);
      ranges.push_back({stripe.Number(i), stripe.Number(i) + together});
      i += together;
    }
  });
  std::ranges::sort(ranges, {}, &models::ElementRange::begin);
  return ranges;
}

std::vector<models::ParameterInfo> Session::Load(const models::Model& model,
                                                 const std::string& folder, models::Misfits misfits,
                                                 std::set<std::string> left_out) {
  const ReadingBuffers staging(*this);
  return models::LoadWeights(
      folder, model, staging.buffers(), device_.pool(),
      [&](const models::ParameterInfo& parameter, int64_t first, const TypedElements& elements) {
        WriteElements(parameter.name, first, elements);
      },
      {.misfits = misfits,
       .left_out = std::move(left_out),
       .wanted = [&](const models::ParameterInfo& parameter) { return Owned(parameter.name); }});
}

}  // namespace plimsoll::trainer
