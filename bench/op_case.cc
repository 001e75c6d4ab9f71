#include "bench/op_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "ops/convolution/conv_geometry.h"

namespace plimsoll::bench {
namespace {

using graph::DType;
using graph::TensorType;
using nlohmann::json;
using ops::Example;
using ops::ExampleInput;
using ops::Fill;

// A call as in the op's example that has most of these inputs; others are filled as in any example.
CaseCall LikeAnExample(const std::string& op, const std::vector<bool>& present) {
  const auto has = [&](const Example& example, size_t i) {
    return example.op == op && i < example.inputs.size() && example.inputs[i].fill != Fill::kAbsent;
  };
  const auto missing = [&](const Example& example) {
    size_t count = example.op == op ? 0 : present.size() + 1;
    for (size_t i = 0; i < present.size(); ++i) count += present[i] && !has(example, i);
    return count;
  };
  const std::vector<Example>& examples = ops::Examples();
  CaseCall call{.example = *std::ranges::min_element(examples, {}, missing)};
  std::vector<ExampleInput> inputs(present.size(), {.shape = {}, .fill = Fill::kAbsent});
  for (size_t i = 0; i < present.size(); ++i) {
    const auto with = std::ranges::find_if(examples, [&](const auto& e) { return has(e, i); });
    if (present[i]) inputs[i] = with == examples.end() ? ExampleInput{} : with->inputs[i];
    if (present[i] && has(call.example, i)) inputs[i] = call.example.inputs[i];
  }
  call.example.op = op;
  call.example.inputs = inputs;
  return call;
}

// Reads the i-th of a case's `in`, other than null.
void ReadInput(const json& from, size_t i, CaseCall& call) {
  static const std::map<std::string, Fill> kFills = {
      {"small", Fill::kSmall}, {"positive", Fill::kPositive}, {"tokens", Fill::kTokens}};
  const json more = from.is_object() ? from : json{{"shape", from}};
  ExampleInput& input = call.example.inputs[i];
  input.shape = graph::Shape(more.at("shape").get<std::vector<int64_t>>());
  if (more.contains("type"))
    input.dtype = graph::ParseDType(more["type"].get<std::string>()).value();
  if (more.contains("fill")) input.fill = kFills.at(more["fill"]);
  input.limit = more.value("below", input.limit);
  if (more.contains("values")) call.values[i] = more["values"].get<std::vector<double>>();
}

graph::AttributeValue ValueOf(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number()) return value.get<double>();
  return value.get<std::string>();
}

// "LABEL: layer_norm bf16[32768,768] bf16[768] - eps=1e-05"
std::string TextOf(const CaseCall& call, const std::string& label = "") {
  const TypedCall typed(call);
  std::string text = (label.empty() ? "" : label + ": ") + typed.op.name;
  for (const TensorType* input : typed.input_types) text += input ? " " + input->ToString() : " -";
  for (const auto& [name, value] : call.example.attributes.entries()) {
    if (name == "key") continue;  // another key, other draws in the same time
    std::visit([&](const auto& v) { text += fmt::format(" {}={}", name, v); }, value);
  }
  for (size_t i = 0; i < typed.outputs.size(); ++i) {
    if (typed.output_types[i] == nullptr) text += fmt::format(" unread={}", i);
  }
  return text;
}

OpCase ReadCase(json row, const std::string& default_type) {
  const auto take = [&](const char* key, json otherwise) {
    json value = row.value(key, std::move(otherwise));
    row.erase(key);
    return value;
  };
  const std::string op = take("op", ""), label = take("case", ""),
                    type = take("type", default_type);
  const json inputs = take("in", json::array());
  std::vector<bool> present;
  for (const json& input : inputs) present.push_back(!input.is_null());
  CaseCall call = LikeAnExample(op, present);
  const auto dtype = graph::ParseDType(type == "tf32" ? "f32" : type);
  if (!dtype) throw UserError("there is no type " + type);
  call.dtype = *dtype;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (present[i]) ReadInput(inputs[i], i, call);
  }
  call.want.assign(graph::OpRegistry::Get().Require(op).outputs.size(), true);
  for (const size_t unread : take("unread", json::array())) call.want.at(unread) = false;
  for (const json& pair : take("in_place", json::array())) {
    call.in_place.push_back({pair.at(0), pair.at(1)});
  }
  if (type == "tf32") call.example.attributes.Set("tf32", true);
  for (const auto& [name, value] : row.items()) call.example.attributes.Set(name, ValueOf(value));
  return {.text = TextOf(call, label), .calls = {call}};
}

CaseCall CallOf(const graph::Program& program, const graph::Node& node) {
  const graph::Program::Call types = program.CallOf(node);
  std::vector<bool> present;
  for (const TensorType* input : types.inputs) present.push_back(input != nullptr);
  CaseCall call = LikeAnExample(node.op->name, present);
  call.example.attributes = node.attributes;
  for (size_t i = 0; i < present.size(); ++i) {
    if (!present[i]) continue;
    call.example.inputs[i].shape = types.inputs[i]->shape;
    call.example.inputs[i].dtype = types.inputs[i]->dtype;
  }
  for (const TensorType* output : types.outputs) call.want.push_back(output != nullptr);
  if (node.op->shares_launches) call.in_place = node.op->in_place;
  return call;
}

}  // namespace

std::vector<std::optional<ops::HostTensor>> CaseCall::Contents(int64_t most) const {
  Example some = example;
  for (ExampleInput& input : some.inputs) {
    if (input.shape.elements() > most) input.shape = {most};
  }
  auto contents = ops::MakeInputs(some, dtype);
  for (const auto& [i, repeated] : values) {
    for (int64_t k = 0; k < some.inputs[i].shape.elements(); ++k) {
      contents[i]->set(k, repeated[static_cast<size_t>(k) % repeated.size()]);
    }
  }
  return contents;
}

TypedCall::TypedCall(const CaseCall& of)
    : call(of), op(graph::OpRegistry::Get().Require(of.example.op)) {
  const auto contents = call.Contents(1);
  inputs.resize(contents.size());
  for (size_t i = 0; i < contents.size(); ++i) {
    if (contents[i]) inputs[i] = {contents[i]->type.dtype, call.example.inputs[i].shape};
    input_types.push_back(contents[i] ? &inputs[i] : nullptr);
  }
  outputs = op.infer({op, input_types, {}, call.example.attributes});
  for (size_t i = 0; i < outputs.size(); ++i) {
    output_types.push_back(call.want.empty() || call.want[i] ? &outputs[i] : nullptr);
  }
}

std::vector<OpCase> LoadCases(const std::string& path, const std::string& type) {
  std::ifstream file(path);
  if (!file) throw UserError(path + ": cannot be read");
  std::vector<OpCase> cases;
  std::string row;
  try {
    for (const json& read : json::parse(file)) {
      row = ": " + read.dump();
      cases.push_back(ReadCase(read, type));
    }
  } catch (const std::exception& error) {
    throw UserError(path + row + ": " + error.what());
  }
  return cases;
}

std::vector<OpCase> ExampleCases() {
  std::vector<OpCase> cases;
  for (const Example& example : ops::Examples()) {
    CaseCall call{.example = example, .dtype = example.dtypes[0]};
    if (!TypedCall(call).op.view) cases.push_back({TextOf(call, example.label), {call}});
  }
  return cases;
}

std::vector<OpCase> StepCases(const trainer::CompiledStep& compiled) {
  std::map<int, int64_t> runs;  // of each program
  for (const trainer::StepEntry& entry : compiled.step.entries) runs[entry.program] += entry.times;
  std::map<std::string, OpCase> cases;
  for (const auto& [index, times] : runs) {
    const graph::Program& program = *compiled.programs[static_cast<size_t>(index)];
    for (const graph::Node& node : program.nodes()) {
      if (node.op->view) continue;
      const CaseCall call = CallOf(program, node);
      const bool shares = node.op->shares_launches;
      const std::string text = TextOf(call, shares ? program.name() + ", with others" : "");
      const std::string key = shares ? program.name() + " " + node.op->name : text;
      OpCase& found = cases.try_emplace(key, OpCase{text, {}, 0}).first->second;
      if (shares || found.calls.empty()) found.calls.push_back(call);
      found.times = shares ? times : found.times + times;
    }
  }
  std::vector<OpCase> list;
  for (auto& [text, found] : cases) list.push_back(std::move(found));
  return list;
}

bool IsConvolution(const CaseCall& call) {
  const TypedCall typed(call);
  return typed.op.name.starts_with("conv") && !ops::GeometryOf(typed.get()).linear();
}

std::string CountsByOp(std::span<const OpCase> cases) {
  std::string text;
  for (const graph::OpDef* op : graph::OpRegistry::Get().All()) {
    const auto is_of = [&](const OpCase& c) { return c.calls[0].example.op == op->name; };
    const auto count = std::ranges::count_if(cases, is_of);
    if (!op->view) text += op->name + (count > 0 ? fmt::format(": {}\n", count) : ": no case\n");
  }
  return text;
}

}  // namespace plimsoll::bench
