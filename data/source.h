// Data sources, which `data.source` names. A source fills inputs of the model's programs, by name,
// with samples. A sample is one row of each input; training samples are numbered from 0. A sample's
// content depends only on its number and the seed. Therefore a step has the same samples for every
// split over ranks and micro-steps, and a resumed run continues exactly.
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

// How a training reads the source; used in its description.
struct Reading {
  int64_t samples_per_step = 1;
  int64_t samples = 0;  // the number of samples read by the end of training
  // Targets of an evaluation; nullopt: the training has no evaluations.
  std::optional<int64_t> held_out_targets = {};
  int64_t eval_every = 0;  // steps between evaluations
};

// The data.source of token data, which has no SourceKind.
inline constexpr const char* kTokens = "tokens";

class PackedRows;         // data/tokens/packed_rows.h
struct ImagePreparation;  // data/images/image_preparation.h
enum class LabelKind;     // data/labels.h

class Source {
 public:
  virtual ~Source() = default;

  // Fills each slot with its rows of samples first, first + 1, … Allocates nothing and changes no
  // state; several threads may fill rows of one batch (prefetch.h). Throws a UserError when the
  // source cannot fill a slot of that name.
  virtual void Fill(int64_t first, std::span<const graph::Slot> slots) const = 0;
  // The divisor of the objective's loss: the number of targets with loss in `count` samples,
  // starting at `first`. Without masks, each sample has one target.
  virtual int64_t CountTargets(std::string_view /*objective*/, int64_t /*first*/,
                               int64_t count) const {
    return count;
  }
  // The number of tokens without padding in these samples, if the source pads texts. nullopt: every
  // sample has the same amount of data.
  virtual std::optional<int64_t> CountTokens(int64_t /*first*/, int64_t /*count*/) const {
    return std::nullopt;
  }
  // Throws a UserError, which names the first sample, if an integer input of that name would get a
  // value of `bound` or more.
  virtual void CheckBound(std::string_view /*input*/, int64_t /*bound*/) const {}
  // The amount of data in each part, which must not change when a run resumes. Empty: endless data.
  virtual std::vector<int64_t> sizes() const { return {}; }
  // A checksum of each part, if all data are read when the source is opened. An empty text: the
  // part's checksum is unknown. Empty list: no checksum is known.
  virtual std::vector<std::string> checksums() const { return {}; }
  // The number of samples; nullopt: endless.
  virtual std::optional<int64_t> samples() const { return std::nullopt; }
  // The number of samples in an epoch: that many consecutive samples contain all training data
  // exactly once. nullopt: the source has no epochs, because its samples are made up, or its parts
  // have epochs of their own.
  virtual std::optional<int64_t> epoch_samples() const { return std::nullopt; }
  // True if Fill accepts samples after the last one. Their rows carry no loss and do not count in
  // metrics: their targets are negative.
  virtual bool pads() const { return false; }
  // The held-out samples, for evaluation: at most `most` of them; 0: all. nullptr: the source has
  // no held-out samples. Throws a UserError when they cannot be read.
  virtual std::unique_ptr<Source> HeldOut(int64_t /*most*/) const { return nullptr; }
  // The packed rows of preference pairs, in all training and held-out parts. Their reference
  // log-probabilities must be set before they are read. Empty: the samples are not preferences.
  virtual std::vector<std::shared_ptr<const PackedRows>> PreferenceRows() const { return {}; }
  // The class names of the labels, by class number. Empty: the classes have no names.
  virtual std::vector<std::string> class_names() const { return {}; }
  // The preparation of images in evaluation. nullptr: the source has no images, or makes them up.
  virtual const ImagePreparation* image_preparation() const { return nullptr; }
  // Describes, in one line without a line end, the data that could not be read and was left out so
  // far. Empty: everything was read.
  virtual std::string Unread() const { return ""; }
  // Warnings about the data and settings, each beginning with a key, as in "KEY: has no effect:
  // why".
  virtual std::vector<std::string> Warnings() const { return {}; }
  // Describes the source for the user, in lines that each end with a newline.
  virtual std::string Describe(const Reading& reading) const;
};

// Sizes of the model that a source may need. 0: the model has no such size.
struct ModelSizes {
  int64_t sequence = 0;  // tokens in a sample
  int64_t vocab = 0;     // exclusive upper bound of token ids
  int64_t classes = 0;   // exclusive upper bound of labels
  // The shape of the input "label_values" for one sample: [1,classes] for a multi-label classifier,
  // [1] for a regression model. Rank 0: the model has no such input.
  graph::Shape label_values = {};
  graph::Shape images = {};  // shape of the input "images" for one sample; rank 0: no such input
};

// An input of a model that a source can fill.
struct FilledInput {
  std::string name;
  std::vector<int> ranks = {};  // possible ranks of its shape; empty: any

  FilledInput(const char* input, std::vector<int> of_ranks = {})
      : name(input), ranks(std::move(of_ranks)) {}
  bool Fits(const graph::Slot& slot) const;
};

// The setting "workers": the number of threads that prefetch samples, for sources whose samples
// take time to read (prefetch.h). trainer/step_feed.cc reads it.
Setting WorkersSetting();

struct SourceKind {
  std::string name;  // the value of data.source
  // The source's keys in the section `data`. If token data has the same key (`data.train`), both
  // share token data's description. Unlike in token data, lists of files have no weights.
  std::vector<Setting> settings;
  // Fills in settings that follow from others, like Family::complete. Empty: none do.
  std::function<void(Settings&)> complete = {};
  // Opens the source. Throws a SettingError, or a UserError that begins with the key, when the data
  // do not exist or do not match the model.
  std::function<std::unique_ptr<Source>(const Settings&, const ModelSizes&, uint64_t seed)> make;
  // Sets the settings that a run file leaves open to the preparation of pictures in the folder of
  // the model's weights (preprocessor_config.h), and returns their names. `read` returns that
  // preparation; it is called only if settings are open. Throws a SettingError if the source cannot
  // prepare pictures that way. Empty: the source has no pictures.
  std::function<std::vector<std::string>(Settings&, const std::function<ImagePreparation()>& read)>
      follow = {};
  // Sets the settings that a run file leaves open for a model that generates images, within ±1 and
  // of this size, and returns their names. Empty: the source has no pictures.
  std::function<std::vector<std::string>(Settings&, int64_t height, int64_t width)> follow_maker =
      {};
  // The number of classes in the data, the default of `model.classes`. nullopt: it is unknown
  // before all data are read. Throws the errors of `make`. Empty: the number is never known.
  std::function<std::optional<int64_t>(const Settings&, LabelKind)> count_classes = {};
  // The approximate size of the files that `make` reads in full, in bytes. Empty: the size is
  // small, whatever the amount of data.
  std::function<int64_t(const Settings&)> bytes = {};
  // For a memory plan, which does not open large data: throws the errors that `make` and the first
  // samples for these slots would throw, as far as names, headers and the beginnings of files show
  // them.
  std::function<void(const Settings&, const ModelSizes&, std::span<const graph::Slot>)> check = {};
  // The inputs that the source can fill, for advice in errors. Empty: unknown.
  std::vector<FilledInput> fills = {};
  // The name of the setting that mixes two samples into one with two labels. An empty text: no such
  // setting is given.
  std::function<std::string(const Settings&)> mixes = {};
  // True if a source with these settings holds out samples. Empty: it never does.
  std::function<bool(const Settings&)> holds_out = {};
  // The name of the boolean setting that makes the source make up its samples; an empty text: it
  // always does. nullopt: it never does.
  std::optional<std::string> made_up = std::nullopt;
  // Example settings, as in a run file, that name the user's own data. Empty: the source reads no
  // data.
  std::string example = {};

  bool MakesUp(const Settings& given) const {
    return made_up && (made_up->empty() || given.Bool(*made_up));
  }
};

class SourceRegistration {
 public:
  // Throws InternalError at start-up when the name is already in use.
  explicit SourceRegistration(SourceKind kind);
};

// All sources, sorted by name.
const std::vector<SourceKind>& Sources();
const SourceKind* FindSource(std::string_view name);  // nullptr if no such source exists
// The names of the sources that can fill all of these inputs.
std::vector<std::string> SourcesThatFill(std::span<const graph::Slot> slots);

// Which samples a run of a program reads. B samples in each micro-step and rank, D draws of data in
// each step, R data ranks. A step reads D·R·B samples; in draw d of step s, rank r reads B samples
// that begin with number
//     skip + ((s·D + d)·R + r)·B.
struct Draws {
  int64_t batch = 1;
  int64_t per_step = 1;
  int64_t data_rank = 0, data_ranks = 1;
  // An offset for a run that resumes with steps of another size: its first step continues where the
  // last step ended. Otherwise 0.
  int64_t skip = 0;

  int64_t samples_per_step() const { return per_step * data_ranks * batch; }
  int64_t FirstOfStep(int64_t step) const { return skip + step * samples_per_step(); }
  // The first sample of a draw: over all ranks, and on this rank.
  int64_t FirstOfDraw(int64_t step, int64_t draw) const {
    return FirstOfStep(step) + draw * data_ranks * batch;
  }
  int64_t First(int64_t step, int64_t draw) const {
    return FirstOfDraw(step, draw) + data_rank * batch;
  }
  // Makes `step` begin with that sample; later steps continue from there.
  void ContinueAt(int64_t step, int64_t sample) { skip = sample - step * samples_per_step(); }
};

}  // namespace plimsoll::data
