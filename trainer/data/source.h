// Sources of data: what `data.source` may name. A source fills inputs of the model's programs, by
// their names, with samples; a sample is a row of each input, and the samples of a training are
// numbered from 0 on. What a sample holds depends on its number and the seed alone, so that the
// same samples make up a step whatever its split over ranks and micro-steps, and a resumed run
// continues exactly.
//
// A source registers itself, in its own file, with its settings; nothing else knows its name.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings.h"
#include "graph/slot.h"

namespace plimsoll::data {

// What a training reads, for those who describe it.
struct Reading {
  int64_t samples_per_step = 1;
  int64_t samples = 0;                           // until its end
  std::optional<int64_t> held_out_targets = {};  // of an evaluation; nothing: there are none
  int64_t eval_every = 0;                        // steps
};

inline constexpr const char* kTokens = "tokens";  // data.source of token data, which needs no kind

class Source {
 public:
  virtual ~Source() = default;

  // Fills every slot with its rows of samples first, first + 1, … It neither allocates nor changes
  // anything. UserError when it has nothing for a slot of that name.
  virtual void Fill(int64_t first, std::span<const graph::Slot> slots) const = 0;
  // What the loss of that objective is divided by, of `count` samples from `first` on: those of
  // their targets that carry loss. Without masks, one a sample.
  virtual int64_t CountTargets(std::string_view /*objective*/, int64_t /*first*/,
                               int64_t count) const {
    return count;
  }
  // How much there is, by part: a run goes on with the data it began with. Empty: without end.
  virtual std::vector<int64_t> sizes() const { return {}; }
  // Lines for the user, each with its end.
  virtual std::string Describe(const Reading& reading) const;
};

struct SourceKind {
  std::string name;               // data.source
  std::vector<Setting> settings;  // its keys of the section `data`
  // As Family::complete. Empty: nothing follows from other settings.
  std::function<void(Settings&)> complete = {};
  // SettingError when there is no such data.
  std::function<std::unique_ptr<Source>(const Settings&, uint64_t seed)> make;
};

class SourceRegistration {
 public:
  // InternalError at start-up when the name is taken.
  explicit SourceRegistration(SourceKind kind);
};

// By name, in alphabetical order.
const std::vector<SourceKind>& Sources();
const SourceKind* FindSource(std::string_view name);  // nullptr: there is none

// Which samples a run of a program reads. B samples per micro-step and rank, D draws of data a
// step, R data ranks. A step reads D·R·B samples; rank r reads in draw d of step s those from
//     skip + ((s·D + d)·R + r)·B
// on.
struct Draws {
  int64_t batch = 1;
  int64_t per_step = 1;
  int64_t data_rank = 0, data_ranks = 1;
  // Where a training that goes on with steps of another size stands: such that its first step reads
  // on where the last one ended. Otherwise 0.
  int64_t skip = 0;

  int64_t samples_per_step() const { return per_step * data_ranks * batch; }
  int64_t FirstOfStep(int64_t step) const { return skip + step * samples_per_step(); }
  // Of all ranks; and this one's.
  int64_t FirstOfDraw(int64_t step, int64_t draw) const {
    return FirstOfStep(step) + draw * data_ranks * batch;
  }
  int64_t First(int64_t step, int64_t draw) const {
    return FirstOfDraw(step, draw) + data_rank * batch;
  }
  // Lets `step` begin with that sample, and the steps behind it follow on.
  void ContinueAt(int64_t step, int64_t sample) { skip = sample - step * samples_per_step(); }
};

}  // namespace plimsoll::data
