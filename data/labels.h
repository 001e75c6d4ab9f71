// Labels of samples for models that classify them, as lines of JSON give them:
//
//   "label": "praise"                  a class by its name
//   "label": 2                         or by its number, from 0
//   "label": ["weather", "news"]       several classes (multi-label), likewise
//   "labels": [1.0, 0.0, 1.0]          a value for each class
//   "label": 3.5                       a number (regression)
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/json.h"
#include "graph/slot.h"
#include "graph/tensor.h"

namespace plimsoll::data {

// What the model reads of a sample.
enum class LabelKind {
  kClass,    // "labels": one class
  kClasses,  // "label_values" with a value for each class: any number of classes
  kNumber,   // "label_values": a number
};
// Of a model whose input "label_values" has that shape with one sample (ModelSizes).
LabelKind LabelKindOf(const graph::Shape& label_values);

// A label as a file gives it.
struct GivenLabel {
  // Of classes: names, or numbers in decimal; one for LabelKind::kClass.
  std::vector<std::string> names;
  bool numbered = false;
  // Of LabelKind::kClasses a value for each class, where the line gives those instead; of
  // LabelKind::kNumber the number.
  std::vector<float> values = {};
  std::string where;  // "FILE:LINE", or the file
};
// UserErrors name the file and line, also of labels of another kind.
GivenLabel ParseLabel(const formats::JsonObject& line, const std::string& where, LabelKind kind);

// A label as the model reads it.
struct SampleLabel {
  static constexpr int32_t kNone = -1;  // of rows that carry no loss

  int32_t number = kNone;  // of the class
  // Those of a row of "label_values" that aren't 0, by their place in it.
  std::vector<std::pair<int32_t, float>> values = {};
  bool has_values = false;  // false: the row has no label
};

// Classes by their numbers.
struct LabelClasses {
  std::vector<std::string> names;
  std::string from = "data.label_names or data.train";  // where the names are from, for messages
  // UserError, which names the place, when a class isn't among `names`, or its number isn't below
  // `most` (the model's classes; 0: any), or when there are not `most` values.
  SampleLabel Of(const GivenLabel& given, LabelKind kind, int64_t most) const;

 private:
  int32_t NumberOf(const std::string& label, const GivenLabel& given, int64_t most) const;
};

// `given`: the names in order; empty: the names of the labels, sorted, or as many numbers as there
// are up to the largest. UserError when some labels have names and others numbers or values.
LabelClasses ClassesOf(const std::vector<const GivenLabel*>& labels,
                       const std::vector<std::string>& given);
LabelClasses ClassesOf(const std::vector<GivenLabel>& labels,
                       const std::vector<std::string>& given);

// The labels of many samples, by their numbers.
class LabelTable {
 public:
  void Add(const SampleLabel& label);
  int64_t count() const { return std::ssize(rows_); }
  // Of no sample (before the first one, or beyond the last): SampleLabel::kNone.
  int32_t number(int64_t row) const;
  // Fills a row of "label_values": NaN of no sample, and where there is no label.
  void FillValues(int64_t row, std::span<float> to) const;

 private:
  static constexpr int64_t kNoValues = -1;
  struct Row {
    int32_t number = SampleLabel::kNone;
    int64_t first = 0, end = kNoValues;  // in values_
  };
  Row At(int64_t row) const {
    return row >= 0 && row < std::ssize(rows_) ? rows_[static_cast<size_t>(row)] : Row();
  }

  std::vector<Row> rows_;
  std::vector<std::pair<int32_t, float>> values_;  // of all rows
};

// Random labels of made-up samples, a pure function of seed and sample: "labels" i32[B], a class
// each, and "label_values", of f32[B,C] a 0 or 1 for each class, of f32[B] a standard normal
// number.
bool IsLabels(const graph::Slot& slot);
// The rows of samples from number `first` on; classes are below `classes`, which is at least 1.
void FillLabels(const graph::Slot& slot, int64_t first, int64_t classes, uint64_t seed);

}  // namespace plimsoll::data
