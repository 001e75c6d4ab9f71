#include <cctype>
#include <charconv>
#include <limits>

#include "base/axes.h"
#include "base/error.h"
#include "graph/text.h"

namespace plimsoll::graph {
namespace {

bool IsWordCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-' ||
         c == '/';
}

// One line, parsed from left to right.
class Line {
 public:
  Line(std::string_view text, std::string_view source, int number)
      : rest_(text), source_(source), number_(number) {
    SkipSpace();
  }

  [[noreturn]] void Fail(const std::string& reason) const {
    throw UserError(std::string(source_) + ":" + std::to_string(number_) + ": " + reason);
  }

  bool AtEnd() const { return rest_.empty(); }
  bool Accept(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    SkipSpace();
    return true;
  }
  void Expect(char c) {
    if (!Accept(c)) Fail(std::string("expected '") + c + "'" + Before());
  }
  bool AcceptWord(std::string_view word) {
    if (PeekWord() != word) return false;
    Word();
    return true;
  }
  std::string_view PeekWord() const {
    size_t n = 0;
    while (n < rest_.size() && IsWordCharacter(rest_[n])) ++n;
    return rest_.substr(0, n);
  }
  std::string_view Word() {
    const std::string_view word = PeekWord();
    if (word.empty()) Fail("expected a name" + Before());
    rest_.remove_prefix(word.size());
    SkipSpace();
    return word;
  }
  int64_t Integer() {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) Fail("expected an integer" + Before());
    rest_.remove_prefix(end - rest_.data());
    SkipSpace();
    return value;
  }
  AttributeValue Value() {
    if (Accept('"')) {
      const size_t end = rest_.find('"');
      if (end == std::string_view::npos) Fail("a quoted word has no end");
      std::string word(rest_.substr(0, end));
      rest_.remove_prefix(end + 1);
      SkipSpace();
      return word;
    }
    if (AcceptWord("true")) return true;
    if (AcceptWord("false")) return false;
    size_t n = 0;
    while (n < rest_.size() && rest_[n] != ',' && rest_[n] != '}' && rest_[n] != ' ') ++n;
    const std::string_view number = rest_.substr(0, n);
    const char* const begin = number.data();
    const char* const end = begin + number.size();
    int64_t integer = 0;
    double real = 0;
    AttributeValue value;
    if (auto r = std::from_chars(begin, end, integer); r.ec == std::errc() && r.ptr == end) {
      value = integer;
    } else if (auto d = std::from_chars(begin, end, real); d.ec == std::errc() && d.ptr == end) {
      value = real;
    } else {
      Fail("expected a value" + Before());
    }
    rest_.remove_prefix(n);
    SkipSpace();
    return value;
  }

 private:
  void SkipSpace() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t'))
      rest_.remove_prefix(1);
  }
  std::string Before() const {
    return rest_.empty() ? " at the end of the line"
                         : " before '" + std::string(rest_.substr(0, 20)) + "'";
  }

  std::string_view rest_;
  std::string_view source_;
  int number_;
};

class Parser {
 public:
  Program Run(std::string_view text, std::string_view source) {
    int number = 0;
    bool named = false;
    while (!text.empty()) {
      const size_t end = text.find('\n');
      std::string_view content = text.substr(0, end);
      text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
      if (const size_t comment = content.find("//"); comment != std::string_view::npos) {
        content = content.substr(0, comment);
      }
      Line line(content, source, ++number);
      if (line.AtEnd()) continue;
      if (!named) {
        if (!line.AcceptWord("program")) line.Fail("a program starts with 'program NAME'");
        if (!line.AtEnd()) program_.set_name(std::string(line.Word()));
        named = true;
      } else if (line.AcceptWord("tensor")) {
        Reference(line);
      } else if (const auto phase = ParsePhase(line.PeekWord())) {
        line.Word();
        phase_ = *phase;
        micro_step_ = line.AtEnd() ? 0 : MicroStep(line);
      } else {
        ParseNode(line);
      }
      if (!line.AtEnd()) line.Fail("the line does not end where it should");
    }
    if (!named) Line("", source, number).Fail("no program");
    return std::move(program_);
  }

 private:
  // Reads "%name", and declares the tensor when a type follows; "_" means absent.
  TensorId Reference(Line& line) {
    if (line.PeekWord() == "_") {
      line.Word();
      return kNoTensor;
    }
    line.Expect('%');
    const std::string name(line.Word());
    TensorId id = program_.Find(name);
    if (!line.Accept(':')) {
      if (id == kNoTensor) line.Fail("tensor %" + name + " has no type");
      return id;
    }
    if (id != kNoTensor) line.Fail("tensor %" + name + " is declared twice");
    Tensor tensor;
    tensor.name = name;
    tensor.type = Type(line);
    while (true) {
      const std::string_view word = line.PeekWord();
      if (word == "persistent") {
        tensor.persistent = true;
      } else if (const auto role = ParseRole(word)) {
        tensor.role = *role;
      } else if (const auto place = ParsePlace(word)) {
        tensor.place = *place;
      } else if (const auto retention = ParseRetention(word)) {
        tensor.retention = *retention;
      } else if (word == "of") {
        line.Word();
        tensor.owner = OwnerIn(line);
        continue;
      } else if (word == "merged") {
        line.Word();
        tensor.merge = MergeIn(line);
        continue;
      } else if (word == "names") {
        line.Word();
        tensor.names_crc = ChecksumIn(line);
        continue;
      } else if (word == "view") {
        line.Word();
        tensor.alias = ViewOf(line, tensor);
        continue;
      } else {
        break;
      }
      line.Word();
    }
    return program_.AddTensor(std::move(tensor));
  }

  static Owner OwnerIn(Line& line) {
    line.Expect('%');
    Owner owner = {.name = std::string(line.Word())};
    if (!line.AcceptWord("as")) line.Fail("expected what it is to %" + owner.name);
    const std::string as(line.Word());
    const auto known = ParseOwnedAs(as);
    if (!known) line.Fail("no tensor belongs to another one as '" + as + "'");
    owner.as = *known;
    return owner;
  }

  static Merge MergeIn(Line& line) {
    const std::string over_micro_steps(line.Word());
    line.Expect(',');
    const std::string over_ranks(line.Word());
    const auto micro_steps = ParseOverMicroSteps(over_micro_steps);
    const auto ranks = ParseOverRanks(over_ranks);
    if (!micro_steps) line.Fail("micro-steps are not merged by '" + over_micro_steps + "'");
    if (!ranks) line.Fail("ranks are not merged by '" + over_ranks + "'");
    return {*micro_steps, *ranks};
  }

  // Parses eight hexadecimal digits.
  static uint32_t ChecksumIn(Line& line) {
    const std::string_view word = line.Word();
    uint32_t crc = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), crc, 16);
    if (word.size() != 8 || error != std::errc() || end != word.data() + word.size()) {
      line.Fail("'" + std::string(word) + "' is no checksum of names");
    }
    return crc;
  }

  TensorType Type(Line& line) {
    const std::string_view word = line.Word();
    const auto dtype = ParseDType(word);
    if (!dtype) line.Fail("unknown dtype '" + std::string(word) + "'");
    std::vector<int64_t> dims;
    line.Expect('[');
    // The size is bounded so that no byte count overflows.
    int64_t bytes = ByteSize(*dtype);
    while (!line.Accept(']')) {
      if (!dims.empty()) line.Expect(',');
      const int64_t d = line.Integer();
      if (d < 0 || dims.size() == Shape::kMaxRank || __builtin_mul_overflow(bytes, d, &bytes)) {
        line.Fail("impossible shape");
      }
      dims.push_back(d);
    }
    // A dimension of zero would hide an overflow of the others.
    int64_t nonzero = ByteSize(*dtype);
    for (int64_t d : dims) {
      if (d != 0 && __builtin_mul_overflow(nonzero, d, &nonzero)) line.Fail("impossible shape");
    }
    return {*dtype, Shape(std::span<const int64_t>(dims))};
  }

  static int32_t MicroStep(Line& line) {
    const int64_t number = line.Integer();
    if (number < 0 || number > std::numeric_limits<int32_t>::max()) {
      line.Fail("impossible number of a micro-step");
    }
    return static_cast<int32_t>(number);
  }

  static std::string AxisOfPart(Line& line) {
    if (!line.Accept('(')) return std::string(kDataAxis);
    std::string axis(line.Word());
    line.Expect(')');
    return axis;
  }

  Alias ViewOf(Line& line, const Tensor& tensor) {
    line.Expect('%');
    const std::string base(line.Word());
    const TensorId id = program_.Find(base);
    if (id == kNoTensor) line.Fail("view of %" + base + ", which is not declared before");
    line.Expect('+');
    if (line.AcceptWord("own")) return {id, 0, AxisOfPart(line)};
    const int64_t offset = line.Integer();
    int64_t end = 0;
    if (offset < 0 || __builtin_add_overflow(offset, tensor.bytes(), &end) ||
        end > program_.tensor(id).bytes()) {
      line.Fail("view reaches beyond %" + base);
    }
    return {id, offset};
  }

  void ParseNode(Line& line) {
    Node node;
    node.phase = phase_;
    node.micro_step = micro_step_;
    if (!line.Accept('=')) {
      do {
        node.outputs.push_back(Reference(line));
      } while (line.Accept(','));
      line.Expect('=');
    }
    const std::string op(line.Word());
    node.op = OpRegistry::Get().Find(op);
    if (node.op == nullptr) line.Fail("unknown op '" + op + "'");
    line.Expect('(');
    while (!line.Accept(')')) {
      if (!node.inputs.empty()) line.Expect(',');
      node.inputs.push_back(Reference(line));
    }
    if (line.Accept('{')) {
      while (!line.Accept('}')) {
        if (!node.attributes.empty()) line.Expect(',');
        const std::string name(line.Word());
        line.Expect('=');
        node.attributes.Set(name, line.Value());
      }
    }
    if (line.Accept('@')) node.scope = line.Word();
    if (line.Accept('!')) node.made_by = line.Word();
    node.uncounted = line.AcceptWord("uncounted");
    if (line.AcceptWord("using")) node.workspace = Reference(line);
    program_.mutable_nodes().push_back(std::move(node));
  }

  Program program_;
  Phase phase_ = Phase::kForward;
  int32_t micro_step_ = 0;
};

}  // namespace

Program ParseProgram(std::string_view text, std::string_view source) {
  return Parser().Run(text, source);
}

}  // namespace plimsoll::graph
