// Sources of data, which `data.source` can name. A source fills inputs of the model's programs, by
// their names, with samples; a sample is one row of each input, and the samples of a training are
// numbered from 0. The content of a sample depends on its number and the seed alone, so that a step
// has the same samples for every split over ranks and micro-steps, and a resumed run continues
// exactly.
//
// A source registers itself, in its own file, with its settings; no other code knows its name.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/settings.h"
#include "graph/slot.h"

namespace plimsoll::data {

// How a training reads the source, for descriptions of it.
struct Reading {
  int64_t samples_per_step = 1;
  int64_t samples = 0;                           // read by the end of the training
  std::optional<int64_t> held_out_targets = {};  // of an evaluation; nothing: there is none
  int64_t eval_every = 0;                        // steps
};

inline constexpr const char* kTokens = "tokens";  // data.source of token data, without a SourceKind

class PackedRows;         // data/tokens/packed_rows.h
struct ImagePreparation;  // data/images/image_preparation.h
enum class LabelKind;     // data/labels.h

class Source {
 public:
  virtual ~Source() = default;

  // Fills each slot with its rows of samples first, first + 1, … It neither allocates nor changes
  // anything; several threads may fill rows of one batch (prefetch.h). UserError when the source
  // has nothing for a slot of that name.
  virtual void Fill(int64_t first, std::span<const graph::Slot> slots) const = 0;
  // The divisor of the objective's loss: the number of targets that carry loss in `count` samples
  // from `first` on. Without masks, one per sample.
  virtual int64_t CountTargets(std::string_view /*objective*/, int64_t /*first*/,
                               int64_t count) const {
    return count;
  }
  // How many of the tokens of these samples are no padding, where the source pads texts whose
  // length decides how much there is to learn. nullopt: a sample counts in full.
  virtual std::optional<int64_t> CountTokens(int64_t /*first*/, int64_t /*count*/) const {
    return std::nullopt;
  }
  // Throws UserError, which names the first sample, if an integer input of that name would get
  // numbers from `bound` on.
  virtual void CheckBound(std::string_view /*input*/, int64_t /*bound*/) const {}
  // The amount of data in each part: a resumed run must have the same data. Empty: endless data.
  virtual std::vector<int64_t> sizes() const { return {}; }
  // Checksums of its parts, where all data are read when it is opened. An empty one: of that part
  // it is not known. Empty: of none.
  virtual std::vector<std::string> checksums() const { return {}; }
  // The number of samples. nullopt: endless.
  virtual std::optional<int64_t> samples() const { return std::nullopt; }
  // How many samples make an epoch: so many after one another have all that there is to train on,
  // once. nullopt: there are no epochs, as samples are made up, or come from parts with epochs of
  // their own.
  virtual std::optional<int64_t> epoch_samples() const { return std::nullopt; }
  // True if Fill also takes samples beyond the last one, whose rows carry no loss and count for no
  // metric: their targets are negative.
  virtual bool pads() const { return false; }
  // Samples for evaluations, which training does not read: at most `most` of them, or all with 0.
  // nullptr: the source holds none out. UserError when they cannot be read.
  virtual std::unique_ptr<Source> HeldOut(int64_t /*most*/) const { return nullptr; }
  // The rows of preferences, of all parts that it trains on and holds out, whose reference
  // log-probabilities have to be set before they are read. Empty: its samples are none.
  virtual std::vector<std::shared_ptr<const PackedRows>> PreferenceRows() const { return {}; }
  // The names of the classes that labels stand for, by their numbers. Empty: they have none.
  virtual std::vector<std::string> class_names() const { return {}; }
  // What becomes of its images in evaluations. nullptr: it has none, or makes them up.
  virtual const ImagePreparation* image_preparation() const { return nullptr; }
  // What it could not read so far and left out, in one line without an end. Empty: nothing.
  virtual std::string Unread() const { return ""; }
  // Settings that have no effect with these data, each as "KEY: has no effect: why".
  virtual std::vector<std::string> Unused() const { return {}; }
  // A description for the user, in lines that each end with a newline.
  virtual std::string Describe(const Reading& reading) const;
};

// What a source may have to know of the model that reads it. 0: the model has no such size.
struct ModelSizes {
  int64_t sequence = 0;  // tokens of a sample
  int64_t vocab = 0;     // token ids are below it
  int64_t classes = 0;   // labels are below it
  // Of the input "label_values" with one sample: [1,classes] of a classifier of several labels, [1]
  // of a model that predicts a number; rank 0 without such an input.
  graph::Shape label_values = {};
  graph::Shape images = {};  // of the input "images" with one sample; rank 0: there is none
};

// An input that a source can fill.
struct FilledInput {
  std::string name;
  std::vector<int> ranks = {};  // of its shape; empty: any

  FilledInput(const char* input, std::vector<int> of_ranks = {})
      : name(input), ranks(std::move(of_ranks)) {}
  bool Fits(const graph::Slot& slot) const;
};

// The setting "workers": threads that prepare the samples of the next steps, for sources whose
// samples take time (prefetch.h). trainer/step_feed.cc reads it.
Setting WorkersSetting();

struct SourceKind {
  std::string name;  // data.source
  // Its keys of the section `data`. A key that token data has as well (`data.train`) is one key for
  // both, with token data's description; a list of files has no weights here.
  std::vector<Setting> settings;
  // As Family::complete. Empty: no setting follows from others.
  std::function<void(Settings&)> complete = {};
  // SettingError, or a UserError that begins with the key, when the data does not exist or does not
  // suit the model.
  std::function<std::unique_ptr<Source>(const Settings&, const ModelSizes&, uint64_t seed)> make;
  // Takes the settings that a run file leaves open from how the folder of the model's weights says
  // pictures are prepared (preprocessor_config.h), which `read` gives; returns their names. `read`
  // is called only if some are open. SettingError: the source cannot do the same. Empty: it has no
  // pictures.
  std::function<std::vector<std::string>(Settings&, const std::function<ImagePreparation()>& read)>
      follow = {};
  // Takes the settings that a run file leaves open for a model that makes such images itself,
  // within ±1 and of this size; returns their names. Empty: it has no pictures.
  std::function<std::vector<std::string>(Settings&, int64_t height, int64_t width)> follow_maker =
      {};
  // How many classes the data have, of which `model.classes` follows where a run file leaves it
  // open; nothing: the data don't tell before all are read. Throws what `make` throws. Empty: they
  // never tell.
  std::function<std::optional<int64_t>(const Settings&, LabelKind)> count_classes = {};
  // About how many bytes of files `make` reads in full. Empty: few, however many data there are.
  std::function<int64_t(const Settings&)> bytes = {};
  // For a plan, where these are many: throws what `make` and the first samples for these slots
  // would throw, as far as names, headers and the beginnings of files show it.
  std::function<void(const Settings&, const ModelSizes&, std::span<const graph::Slot>)> check = {};
  // The inputs that it can fill, for the way out of errors. Empty: unknown.
  std::vector<FilledInput> fills = {};
  // The setting that makes samples of two, with two labels each; empty: no setting asks for that.
  std::function<std::string(const Settings&)> mixes = {};
  // True if a source with these settings holds samples out. Empty: it never does.
  std::function<bool(const Settings&)> holds_out = {};
  // The boolean setting with which it makes samples up; empty: it always does. nullopt: it never
  // does.
  std::optional<std::string> made_up = std::nullopt;
  // The settings, as a run file has them, that name somebody's own data. Empty: it reads none.
  std::string example = {};

  bool MakesUp(const Settings& given) const {
    return made_up && (made_up->empty() || given.Bool(*made_up));
  }
};

class SourceRegistration {
 public:
  // InternalError at start-up when the name is already in use.
  explicit SourceRegistration(SourceKind kind);
};

// By name, in alphabetical order.
const std::vector<SourceKind>& Sources();
const SourceKind* FindSource(std::string_view name);  // nullptr: there is none
// Names of those that can fill all of these inputs.
std::vector<std::string> SourcesThatFill(std::span<const graph::Slot> slots);

// Which samples a run of a program reads. B samples per micro-step and rank, D draws of data a
// step, R data ranks. A step reads D·R·B samples; in draw d of step s, rank r reads B samples from
// number
//     skip + ((s·D + d)·R + r)·B
// on.
struct Draws {
  int64_t batch = 1;
  int64_t per_step = 1;
  int64_t data_rank = 0, data_ranks = 1;
  // For a training that continues with steps of another size: the offset at which its first step
  // reads on where the last step ended. Otherwise 0.
  int64_t skip = 0;

  int64_t samples_per_step() const { return per_step * data_ranks * batch; }
  int64_t FirstOfStep(int64_t step) const { return skip + step * samples_per_step(); }
  // The first sample of a draw, of all ranks and of this rank.
  int64_t FirstOfDraw(int64_t step, int64_t draw) const {
    return FirstOfStep(step) + draw * data_ranks * batch;
  }
  int64_t First(int64_t step, int64_t draw) const {
    return FirstOfDraw(step, draw) + data_rank * batch;
  }
  // Makes `step` begin with that sample; the later steps follow on.
  void ContinueAt(int64_t step, int64_t sample) { skip = sample - step * samples_per_step(); }
};

}  // namespace plimsoll::data
