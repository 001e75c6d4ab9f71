// Batches of the sources of text, and their slots.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/source.h"
#include "graph/slot.h"

namespace plimsoll::data {

// [PAD] [UNK] [CLS] [SEP] [MASK] are 0 to 4; then . is 5, the words w0 to w9 are 6 to 15, and the
// pieces ##a to ##d are 16 to 19.
inline std::string SmallVocab() {
  std::string vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\n";
  for (int i = 0; i < 10; ++i) vocab += "w" + std::to_string(i) + "\n";
  return vocab + "##a\n##b\n##c\n##d\n";
}

// The inputs of `rows` samples of `sequence` tokens. Values that nobody has set are -7.
class TextBatch {
 public:
  TextBatch(int64_t rows, int64_t sequence, const std::vector<std::string>& names)
      : rows_(rows), sequence_(sequence) {
    for (const std::string& name : names) {
      const bool by_token = name == "tokens" || name == "targets" || name == "token_types";
      const graph::Shape shape = by_token ? graph::Shape{rows, sequence} : graph::Shape{rows};
      values_[name].assign(static_cast<size_t>(shape.elements()), -7);
      slots_.push_back(
          {name, {graph::DType::kInt32, shape}, std::as_writable_bytes(std::span(values_[name]))});
    }
  }
  TextBatch(TextBatch&&) = default;

  const std::vector<graph::Slot>& slots() const { return slots_; }
  // A sample's part of an input.
  std::vector<int32_t> Row(const std::string& name, int64_t row) const {
    const std::vector<int32_t>& values = values_.at(name);
    const auto per_row = static_cast<int64_t>(values.size()) / rows_;
    return {values.begin() + row * per_row, values.begin() + (row + 1) * per_row};
  }
  int32_t Value(const std::string& name, int64_t row) const { return Row(name, row).front(); }
  int64_t rows() const { return rows_; }
  bool operator==(const TextBatch& other) const { return values_ == other.values_; }

 private:
  int64_t rows_, sequence_;
  std::map<std::string, std::vector<int32_t>> values_;
  std::vector<graph::Slot> slots_;
};

// A source of that name, with the defaults of what is not given.
inline std::unique_ptr<Source> MakeSource(const std::string& name,
                                          const std::map<std::string, SettingValue>& given,
                                          const ModelSizes& model, uint64_t seed) {
  const SourceKind* const kind = FindSource(name);
  Settings settings;
  for (const auto& [key, value] : given) settings.Set(key, value);
  CompleteSettings(kind->settings, kind->complete, settings);
  return kind->make(settings, model, seed);
}

}  // namespace plimsoll::data
