#include <fmt/format.h>

#include <charconv>

#include "base/axes.h"
#include "graph/text.h"

namespace plimsoll::graph {
namespace {

std::string RealText(double value) {
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  std::string text(buffer, end);
  // A real must not look like an integer: "1" would be parsed as an integer.
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string ValueText(const AttributeValue& value) {
  if (const bool* b = std::get_if<bool>(&value)) return *b ? "true" : "false";
  if (const int64_t* i = std::get_if<int64_t>(&value)) return std::to_string(*i);
  if (const double* d = std::get_if<double>(&value)) return RealText(*d);
  return "\"" + std::get<std::string>(value) + "\"";
}

// The offset of a view within its base, as text.
std::string Begin(const Alias& alias) {
  if (!alias.own_part()) return std::to_string(alias.byte_offset);
  return alias.part_along == kDataAxis ? "own" : "own(" + alias.part_along + ")";
}

class Printer {
 public:
  explicit Printer(const Program& program)
      : program_(program), declared_(program.tensors().size(), false) {}

  std::string Run() {
    text_ = "program " + program_.name() + "\n";
    // Prints the declarations of persistent tensors and of tensors that no node writes. Any other
    // tensor is declared by the first node that writes it.
    std::vector<bool> produced(program_.tensors().size(), false);
    for (const Node& node : program_.nodes()) {
      for (TensorId id : node.outputs) Mark(produced, id);
      Mark(produced, node.workspace);
    }
    for (size_t id = 0; id < program_.tensors().size(); ++id) {
      if (produced[id] && !program_.tensors()[id].persistent) continue;
      text_ += "  tensor ";
      Reference(static_cast<TensorId>(id));
      text_ += '\n';
    }
    for (size_t i = 0; i < program_.nodes().size(); ++i) {
      const Node& node = program_.nodes()[i];
      if (i == 0 || node.phase != program_.nodes()[i - 1].phase ||
          node.micro_step != program_.nodes()[i - 1].micro_step) {
        text_ += Name(node.phase);
        if (node.micro_step > 0) text_ += " " + std::to_string(node.micro_step);
        text_ += '\n';
      }
      PrintNode(node);
    }
    return std::move(text_);
  }

 private:
  static void Mark(std::vector<bool>& flags, TensorId id) {
    if (id != kNoTensor) flags[id] = true;
  }

  void Reference(TensorId id) {
    if (id == kNoTensor) {
      text_ += '_';
      return;
    }
    const Tensor& tensor = program_.tensor(id);
    text_ += "%" + tensor.name;
    if (declared_[id]) return;
    declared_[id] = true;
    text_ += ": " + tensor.type.ToString();
    if (tensor.role != Role::kActivation) text_ += " " + std::string(Name(tensor.role));
    if (tensor.persistent) text_ += " persistent";
    if (tensor.owner) {
      text_ += " of %" + tensor.owner->name + " as " + std::string(Name(tensor.owner->as));
    }
    if (tensor.merge) {
      text_ += " merged " + std::string(Name(tensor.merge->micro_steps)) + ", ";
      text_ += Name(tensor.merge->ranks);
    }
    if (tensor.names_crc) text_ += fmt::format(" names {:08x}", *tensor.names_crc);
    if (tensor.place != Place::kDevice) text_ += " " + std::string(Name(tensor.place));
    if (tensor.retention != Retention::kSave) text_ += " " + std::string(Name(tensor.retention));
    if (tensor.alias) {
      text_ += " view %" + program_.tensor(tensor.alias->base).name + "+";
      text_ += Begin(*tensor.alias);
    }
  }

  void List(const std::vector<TensorId>& ids) {
    for (size_t i = 0; i < ids.size(); ++i) {
      if (i > 0) text_ += ", ";
      Reference(ids[i]);
    }
  }

  void PrintNode(const Node& node) {
    text_ += "  ";
    List(node.outputs);
    text_ += " = " + node.op->name + "(";
    List(node.inputs);
    text_ += ")";
    if (!node.attributes.empty()) text_ += " " + ToText(node.attributes);
    if (!node.scope.empty()) text_ += " @" + node.scope;
    if (!node.made_by.empty()) text_ += " !" + node.made_by;
    if (node.uncounted) text_ += " uncounted";
    if (node.workspace != kNoTensor) {
      text_ += " using ";
      Reference(node.workspace);
    }
    text_ += '\n';
  }

  const Program& program_;
  std::vector<bool> declared_;
  std::string text_;
};

}  // namespace

std::string ToText(const Attributes& attributes) {
  std::string text;
  for (const auto& [name, value] : attributes.entries()) {
    text += text.empty() ? "{" : ", ";
    text += name + "=" + ValueText(value);
  }
  return text.empty() ? "" : text + "}";
}

std::string ToText(const Program& program) { return Printer(program).Run(); }

}  // namespace plimsoll::graph
