#include "memory/objectives_search.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "memory/measured_step.h"

namespace plimsoll::memory {
namespace {

using graph::Retention;

int64_t DeviceBytes(const Variant& variant, const SolverOptions& options) {
  return PersistentBytes(variant.realize(KeepAll(variant)), graph::Place::kDevice,
                         options.plan.alignment);
}

class ObjectivesSearch {
 public:
  ObjectivesSearch(const Variant& variant, size_t index, const CostModel& cost,
                   const SolverOptions& options)
      : variant_(variant), index_(index), persistent_bytes_(DeviceBytes(variant, options)) {
    for (size_t base = 0; base < variant.bases.size(); ++base) {
      const Variant alone = Alone(static_cast<int>(base));
      Front& front = fronts_.emplace_back(FindCandidates(alone, index, cost, options));
      const int64_t persistent = DeviceBytes(alone, options);
      for (Candidate& candidate : front) candidate.peak_bytes -= persistent;
    }
  }

  std::vector<Candidate> Run() {
    for (const auto& [name, assignment] : variant_.policies) AddPolicy(name);
    std::set<int64_t> peaks;
    for (const Front& front : fronts_) {
      for (const Candidate& candidate : front) peaks.insert(candidate.peak_bytes);
    }
    for (const bool offload : {false, true}) {
      for (const int64_t peak : peaks) AddWithin(peak, offload);
    }
    return std::move(candidates_);
  }

 private:
  // The candidates of one base; their peaks are of temporaries alone.
  using Front = std::vector<Candidate>;

  // The variant with only this base: the others' programs are left out, their decisions are kSave.
  Variant Alone(int base) {
    Variant alone;
    alone.bases = {variant_.bases[base]};
    alone.micro_steps = variant_.micro_steps;
    std::vector<int> own;
    for (size_t d = 0; d < variant_.decisions.size(); ++d) {
      if (variant_.decisions[d].base != base) continue;
      own.push_back(static_cast<int>(d));
      alone.decisions.push_back(variant_.decisions[d]);
    }
    for (const auto& [name, assignment] : variant_.policies) {
      Assignment part;
      for (const int d : own) part.push_back(assignment[d]);
      alone.policies.emplace_back(name, std::move(part));
    }
    alone.realize = [this, own, base](const Assignment& assignment) {
      Assignment whole(variant_.decisions.size(), Retention::kSave);
      for (size_t i = 0; i < own.size(); ++i) whole[own[i]] = assignment[i];
      std::vector<StepProgram> step = variant_.realize(whole);
      std::erase_if(step,
                    [&](const StepProgram& part) { return part.times > 0 && part.base != base; });
      return step;
    };
    own_.push_back(std::move(own));
    return alone;
  }

  // Adds the combination of each base's fastest candidate within `peak`, if all bases have one.
  void AddWithin(int64_t peak, bool offload) {
    std::vector<const Candidate*> chosen;
    for (const Front& front : fronts_) {
      const Candidate* fastest = nullptr;
      for (const Candidate& candidate : front) {
        if (candidate.peak_bytes > peak || (!offload && Offloads(candidate.assignment))) continue;
        if (fastest == nullptr || candidate.seconds < fastest->seconds) fastest = &candidate;
      }
      if (fastest == nullptr) return;
      chosen.push_back(fastest);
    }
    Add(chosen, "");
  }

  void AddPolicy(const std::string& name) {
    std::vector<const Candidate*> chosen;
    for (const Front& front : fronts_) {
      const auto named = std::ranges::find(front, name, &Candidate::policy);
      if (named == front.end()) return;
      chosen.push_back(&*named);
    }
    Add(chosen, name);
  }

  void Add(const std::vector<const Candidate*>& chosen, const std::string& policy) {
    Candidate together;
    together.variant = index_;
    together.policy = policy;
    together.measured = true;
    together.assignment.assign(variant_.decisions.size(), Retention::kSave);
    for (size_t base = 0; base < chosen.size(); ++base) {
      for (size_t i = 0; i < own_[base].size(); ++i) {
        together.assignment[own_[base][i]] = chosen[base]->assignment[i];
      }
      together.seconds += chosen[base]->seconds;
      together.measured = together.measured && chosen[base]->measured;
      together.peak_bytes = std::max(together.peak_bytes, chosen[base]->peak_bytes);
    }
    together.peak_bytes += persistent_bytes_;
    if (known_.insert(together.assignment).second) candidates_.push_back(std::move(together));
  }

  const Variant& variant_;
  size_t index_;
  int64_t persistent_bytes_;
  std::vector<std::vector<int>> own_;  // by base: its decisions, as indices into the variant's
  std::vector<Front> fronts_;
  std::vector<Candidate> candidates_;
  std::set<Assignment> known_;
};

}  // namespace

std::vector<Candidate> SearchObjectives(const Variant& variant, size_t index, const CostModel& cost,
                                        const SolverOptions& options) {
  return ObjectivesSearch(variant, index, cost, options).Run();
}

}  // namespace plimsoll::memory
