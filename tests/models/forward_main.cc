// forward FOLDER TOKEN... prints, as JSON, what the checkpoint in FOLDER makes of a sequence:
//   {"loss": mean loss of predicting each next token, "logits": [[V numbers] for each token]}
// forward --image FOLDER FILE prints, as JSON, {"logits": [C numbers]} of an image, which is the
// file's float32 numbers [H,W,C].
// forward --inputs FOLDER FILE prints, as JSON, what the checkpoint makes of a batch:
//   {"loss": the loss, "logits": [numbers, as tests/models/forward.h says]}
// The file is {"batch": B, "sequence": T, "settings": {…}, "data": {INPUT: [numbers], …},
// "targets": {INPUT: [numbers], …}}; the settings stand beside the weights.
// forward --copy FROM TO reads a checkpoint and writes it again.
// check_*.py compare them with other implementations.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <exception>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "models/huggingface.h"
#include "tests/models/forward.h"
#include "tests/models/loaded_weights.h"

namespace plimsoll::models {
namespace {

void Copy(const std::string& from, const std::string& to) {
  const auto model = ModelFromHuggingFace(from);
  const LoadedWeights weights = ReadWeights(from, *model);
  SaveWeights(to, *model, [&](const ParameterInfo& parameter) -> const float* {
    return weights.at(parameter.name).data();
  });
}

void Print(const std::string& folder, const std::vector<int32_t>& tokens) {
  const Batch batch = {1, static_cast<int64_t>(tokens.size())};
  std::vector<int32_t> targets(tokens.begin() + 1, tokens.end());
  targets.push_back(-100);
  const double loss = Forward(folder, batch, Head::kLoss).Loss(tokens, targets);
  Forward forward(folder, batch, Head::kLogits);
  const std::vector<float> logits = forward.Logits(tokens);
  const size_t vocab = static_cast<size_t>(TextSizesOf(forward.model()).vocab);
  fmt::print("{{\"loss\": {}, \"logits\": [", loss);
  for (size_t row = 0; row < tokens.size(); ++row) {
    fmt::print("{}[{}]", row == 0 ? "" : ", ",
               fmt::join(std::span(logits).subspan(row * vocab, vocab), ", "));
  }
  fmt::print("]}}\n");
}

void PrintImage(const std::string& folder, const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::vector<float> image;
  for (float value; stream.read(reinterpret_cast<char*>(&value), sizeof(value));) {
    image.push_back(value);
  }
  const std::vector<float> logits = Forward(folder, {1, 1}, Head::kLogits).ClassLogits(image);
  fmt::print("{{\"logits\": [{}]}}\n", fmt::join(logits, ", "));
}

void PrintBatch(const std::string& folder, const std::string& file) {
  const GivenBatch given(formats::JsonObject::FromFile(file));
  const std::vector<float> loss =
      Forward(folder, given.batch, Head::kLoss, given.settings).Run(given.targets);
  const std::vector<float> logits =
      Forward(folder, given.batch, Head::kLogits, given.settings).Run(given.data);
  fmt::print("{{\"loss\": {}, \"logits\": [{}]}}\n", loss.front(), fmt::join(logits, ", "));
}

int Main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 3 && arguments[0] == "--copy") {
    Copy(arguments[1], arguments[2]);
    return 0;
  }
  if (arguments.size() == 3 && arguments[0] == "--image") {
    PrintImage(arguments[1], arguments[2]);
    return 0;
  }
  if (arguments.size() == 3 && arguments[0] == "--inputs") {
    PrintBatch(arguments[1], arguments[2]);
    return 0;
  }
  if (arguments.size() < 3) {
    fmt::print(stderr,
               "usage: forward FOLDER TOKEN TOKEN… | forward --image FOLDER FILE | "
               "forward --inputs FOLDER FILE | forward --copy FROM TO\n");
    return 2;
  }
  std::vector<int32_t> tokens;
  for (size_t i = 1; i < arguments.size(); ++i) tokens.push_back(std::stoi(arguments[i]));
  Print(arguments[0], tokens);
  return 0;
}

}  // namespace
}  // namespace plimsoll::models

int main(int argc, char** argv) {
  try {
    return plimsoll::models::Main(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
