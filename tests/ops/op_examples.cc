#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>

#include "base/error.h"
#include "graph/text.h"
#include "tests/ops/example.h"

namespace plimsoll::ops {
namespace {

std::vector<std::string>& Tables() {
  static std::vector<std::string> tables;
  return tables;
}

const std::map<std::string, Fill, std::less<>> kFills = {
    {"", Fill::kNormal},         {"small", Fill::kSmall},     {"positive", Fill::kPositive},
    {"tokens", Fill::kTokens},   {"targets", Fill::kTargets}, {"numbers", Fill::kNumbers},
    {"counter", Fill::kCounter}, {"bits", Fill::kBits},       {"places", Fill::kPlaces}};

class TableReader {
 public:
  explicit TableReader(std::string_view text) : rest_(text) { SkipSpace(); }

  bool AtEnd() const { return rest_.empty(); }

  Example Row() {
    Example example;
    example.op = Word();
    if (Accept('"')) example.label = Until('"');
    Expect('(');
    while (!Accept(')')) {
      if (!example.inputs.empty()) Expect(',');
      example.inputs.push_back(Input());
    }
    if (Accept('{')) example.attributes = AttributesOf(example.op, Until('}'));
    while (true) {
      const std::string_view before = rest_;
      const std::string_view name = Word();
      if (!Accept('=')) {
        rest_ = before;
        return example;
      }
      Set(name, example);
    }
  }

 private:
  [[noreturn]] void Fail(const std::string& reason) const {
    throw InternalError("examples: " + reason + " before '" + std::string(rest_.substr(0, 40)) +
                        "'");
  }
  void SkipSpace() {
    while (!rest_.empty()) {
      if (rest_.starts_with("//")) {
        rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
      } else if (std::isspace(static_cast<unsigned char>(rest_.front()))) {
        rest_.remove_prefix(1);
      } else {
        return;
      }
    }
  }
  bool Accept(char c) {
    if (!rest_.starts_with(c)) return false;
    Skip(1);
    return true;
  }
  void Expect(char c) {
    if (!Accept(c)) Fail(std::string("expected '") + c + "'");
  }
  std::string_view Skip(size_t count) {
    const std::string_view skipped = rest_.substr(0, count);
    rest_.remove_prefix(count);
    SkipSpace();
    return skipped;
  }
  // A name, or nothing.
  std::string_view Word() {
    const auto end = std::ranges::find_if_not(
        rest_, [](unsigned char c) { return std::isalnum(c) || c == '_'; });
    return Skip(static_cast<size_t>(end - rest_.begin()));
  }
  std::string Until(char end) {
    const size_t length = rest_.find(end);
    if (length == rest_.npos) Fail(std::string("no '") + end + "'");
    std::string text(Skip(length));
    Expect(end);
    return text;
  }
  template <typename T>
  T Number() {
    T value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) Fail("expected a number");
    Skip(static_cast<size_t>(end - rest_.data()));
    return value;
  }
  graph::DType Type(std::string_view name) const {
    const auto type = graph::ParseDType(name);
    if (!type) Fail("no type '" + std::string(name) + "'");
    return *type;
  }

  ExampleInput Input() {
    if (Accept('_')) return {{}, Fill::kAbsent};
    ExampleInput input;
    const std::string_view type = Word();
    input.compute_type = type == "compute";
    if (!type.empty() && !input.compute_type) input.dtype = Type(type);
    std::vector<int64_t> dims;
    Expect('[');
    while (!Accept(']')) {
      if (!dims.empty()) Expect(',');
      dims.push_back(Number<int64_t>());
    }
    input.shape = graph::Shape(std::span<const int64_t>(dims));
    const auto fill = kFills.find(Word());
    if (fill == kFills.end()) Fail("no fill");
    input.fill = fill->second;
    const bool limited =
        input.fill == Fill::kTokens || input.fill == Fill::kTargets || input.fill == Fill::kPlaces;
    if (limited) input.limit = Number<int64_t>();
    return input;
  }
  static graph::Attributes AttributesOf(const std::string& op, std::string text) {
    std::ranges::replace(text, '\n', ' ');
    return graph::ParseProgram("program example\n = " + op + "() {" + text + "}", "examples")
        .nodes()[0]
        .attributes;
  }
  void Set(std::string_view name, Example& example) {
    if (name == "dtypes") {
      example.dtypes.clear();
      do {
        example.dtypes.push_back(Type(Word()));
      } while (Accept(','));
      return;
    }
    double* const number = name == "tolerance"                 ? &example.tolerance
                           : name == "float32_tolerance"       ? &example.float32_tolerance
                           : name == "low_precision_tolerance" ? &example.low_precision_tolerance
                           : name == "cuda_tolerance"          ? &example.cuda_tolerance
                                                               : nullptr;
    if (number == nullptr) Fail("no setting '" + std::string(name) + "'");
    *number = Number<double>();
  }

  std::string_view rest_;
};

}  // namespace

ExampleTable::ExampleTable(std::string_view text) { Tables().emplace_back(text); }

// Read when they are first asked for, when all ops are registered.
const std::vector<Example>& Examples() {
  static const std::vector<Example> examples = [] {
    std::vector<Example> all;
    for (const std::string& table : Tables()) {
      for (TableReader reader(table); !reader.AtEnd();) all.push_back(reader.Row());
    }
    return all;
  }();
  return examples;
}

}  // namespace plimsoll::ops
