// Writing and reading back models, in one file and in shards.
#include "formats/model_safetensors.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/json.h"
#include "formats/safetensors_writer.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::formats {
namespace {

const std::vector<TensorSpec> kTensors = {
    {"half", TensorType::kF16, {3}},      {"weight", TensorType::kF32, {2, 2}},
    {"brain", TensorType::kBf16, {2, 1}}, {"double", TensorType::kF64, {1}},
    {"empty", TensorType::kF32, {0, 5}},  {"scalar", TensorType::kF32, {}}};

int64_t Elements(const TensorSpec& tensor) { return *CountElements(tensor.shape); }

// Element i of every tensor is i + 0.5, which every type represents exactly.
void WriteHalves(const TensorSpec& tensor, TensorSink& sink) {
  for (int64_t i = 0; i < Elements(tensor); ++i) {  // in pieces of one element
    const float value = static_cast<float>(i) + 0.5f;
    sink.WriteFloat32(std::span(&value, 1));
  }
}

template <typename Reader>
void ExpectHalves(const Reader& reader) {
  for (const TensorSpec& tensor : kTensors) {
    EXPECT_EQ(reader.Require(tensor.name).shape, tensor.shape) << tensor.name;
    EXPECT_EQ(reader.Require(tensor.name).type, tensor.type) << tensor.name;
    std::vector<float> values(static_cast<size_t>(Elements(tensor)));
    reader.ReadFloat32(tensor.name, values.data(), Elements(tensor));
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(values[i], static_cast<float>(i) + 0.5f) << tensor.name;
    }
  }
}

TEST(SafetensorsWriter, RoundTripsOneFile) {
  const TempFolder folder;
  const std::string path = folder / "a.safetensors";
  WriteSafetensors(path, kTensors, WriteHalves, {{"format", "pt"}});
  const SafetensorsReader reader(path);
  ExpectHalves(reader);
  EXPECT_EQ(reader.metadata(), (Metadata{{"format", "pt"}}));
  EXPECT_EQ(folder.Names(), std::vector<std::string>{"a.safetensors"});
  // The data begins at a multiple of 8, each tensor at a multiple of its element size.
  EXPECT_EQ((folder.Read("a.safetensors").size() - (4 + 8 + 16 + 4 + 6)) % 8, 0u);
  for (const TensorEntry& tensor : reader.tensors()) {
    EXPECT_EQ(tensor.begin % TypeBytes(tensor.type), 0) << tensor.name;
  }
}

TEST(SafetensorsWriter, LongTensorsPassThroughTheBuffers) {
  const TempFolder folder;
  std::vector<float> values(700'001);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 251);
  const std::vector<TensorSpec> tensors = {{"a", TensorType::kF32, {700'001}},
                                           {"b", TensorType::kBf16, {700'001}}};
  const std::string path = folder / "a.safetensors";
  WriteSafetensors(path, tensors, [&](const TensorSpec&, TensorSink& sink) {
    sink.WriteFloat32(std::span(values).first(5));
    sink.WriteFloat32(std::span(values).subspan(5));
  });
  const SafetensorsReader reader(path);
  for (const char* name : {"a", "b"}) {
    std::vector<float> read(values.size());
    reader.ReadFloat32(name, read.data(), 700'001);
    EXPECT_EQ(read, values) << name;
  }
}

TEST(SafetensorsWriter, AFailedWriteLeavesWhatWasThere) {
  const TempFolder folder;
  const std::string path = folder.Write("a.safetensors", "before");
  const auto too_little = [](const TensorSpec&, TensorSink&) {};
  EXPECT_THROW(WriteSafetensors(path, kTensors, too_little), InternalError);
  const auto too_much = [](const TensorSpec&, TensorSink& sink) {
    sink.Write(std::vector<std::byte>(100));
  };
  EXPECT_THROW(WriteSafetensors(path, kTensors, too_much), InternalError);
  const auto stop = [](const TensorSpec&, TensorSink&) { throw UserError("stop"); };
  EXPECT_THROW(WriteSafetensors(path, kTensors, stop), UserError);
  EXPECT_EQ(folder.Names(), std::vector<std::string>{"a.safetensors"});
  EXPECT_EQ(folder.Read("a.safetensors"), "before");
}

TEST(SafetensorsWriter, RefusesNamesDeclaredTwice) {
  const TempFolder folder;
  const std::vector<TensorSpec> twice = {{"a", TensorType::kU8, {0}}, {"a", TensorType::kU8, {0}}};
  EXPECT_THROW(WriteSafetensors(folder / "a.safetensors", twice, WriteHalves), InternalError);
  EXPECT_THROW(WriteModelSafetensors(folder.path(), twice, 100, WriteHalves), InternalError);
  EXPECT_TRUE(folder.Names().empty());
}

TEST(SafetensorsWriter, AMissingFolderIsAUserError) {
  const TempFolder folder;
  const std::string path = folder / "none/a.safetensors";
  EXPECT_EQ(UserErrorOf([&] { WriteSafetensors(path, kTensors, WriteHalves); }),
            path +
                ": cannot be created: No such file or directory; choose a folder that exists "
                "and can be written to");
}

TEST(ModelSafetensors, RoundTripsAFolderWithOneFile) {
  const TempFolder folder;
  WriteModelSafetensors(folder.path(), kTensors, 1000, WriteHalves);
  EXPECT_EQ(folder.Names(), std::vector<std::string>{"model.safetensors"});
  ExpectHalves(ModelSafetensors(folder.path()));
  ExpectHalves(ModelSafetensors(folder / "model.safetensors"));
}

TEST(ModelSafetensors, RoundTripsShards) {
  const TempFolder folder;
  WriteModelSafetensors(folder.path(), kTensors, 12, WriteHalves, {{"format", "pt"}});
  // half 6 | weight 16 (alone, although too large) | brain 4 + double 8 + empty 0 | scalar 4
  EXPECT_EQ(folder.Names(),
            (std::vector<std::string>{
                "model-00001-of-00004.safetensors", "model-00002-of-00004.safetensors",
                "model-00003-of-00004.safetensors", "model-00004-of-00004.safetensors",
                "model.safetensors.index.json"}));
  const ModelSafetensors model(folder.path());
  ExpectHalves(model);
  ExpectHalves(ModelSafetensors(folder / "model.safetensors.index.json"));
  EXPECT_EQ(model.Names(),
            (std::vector<std::string>{"brain", "double", "empty", "half", "scalar", "weight"}));
  EXPECT_EQ(model.Find("none"), nullptr);
  EXPECT_EQ(model.Raw("double").size(), 8u);
  EXPECT_EQ(UserErrorOf([&] { model.Require("none"); }),
            folder / "model.safetensors.index.json" +
                ": no tensor \"none\" among its 6; is it a checkpoint of another model?");
  EXPECT_EQ(ReadJson(folder / "model.safetensors.index.json")["metadata"]["total_size"], 38);
}

TEST(ModelSafetensors, ShardsAreNotHiddenBehindAnOldFile) {
  const TempFolder folder;
  WriteModelSafetensors(folder.path(), kTensors, 1000, WriteHalves);
  EXPECT_EQ(
      UserErrorOf([&] { WriteModelSafetensors(folder.path(), kTensors, 12, WriteHalves); }),
      folder / "model.safetensors" +
          ": readers would take this file and not the shards to be written next to it; remove "
          "it or choose another folder");
  EXPECT_EQ(folder.Names(), std::vector<std::string>{"model.safetensors"});
}

TEST(ModelSafetensors, AFolderWithoutWeightsIsAnError) {
  const TempFolder folder;
  EXPECT_EQ(UserErrorOf([&] { ModelSafetensors model(folder.path()); }),
            folder.path() +
                ": no model.safetensors or model.safetensors.index.json in this folder; name a "
                "folder that holds a Hugging Face checkpoint in safetensors form");
}

TEST(ModelSafetensors, LyingIndexesAreErrors) {
  const TempFolder folder;
  WriteSafetensors(folder / "a.safetensors", {{"w", TensorType::kU8, {0}}}, WriteHalves);
  const std::string index = folder / "model.safetensors.index.json";
  const auto error = [&](const std::string& text) {
    folder.Write("model.safetensors.index.json", text);
    const std::string message = UserErrorOf([&] { ModelSafetensors model(folder.path()); });
    EXPECT_EQ(message.rfind(index + ": ", 0), 0u) << message;
    return message.substr(index.size() + 2);
  };
  for (const std::string name :
       {"../a.safetensors", "/a.safetensors", "x\\\\a.safetensors", "", "..", ".safetensors",
        "a.safetensors\\u0000", "a.safetensors\\u0000.safetensors", "a.bin"}) {
    const std::string message = error("{\"weight_map\":{\"w\":\"" + name + "\"}}");
    EXPECT_EQ(message.rfind("weight_map.w: \"", 0), 0u) << message;
    EXPECT_NE(message.find("is not the name of a .safetensors file in this folder"), message.npos);
  }
  EXPECT_EQ(error("{\"weight_map\":{\"w\":\"b.safetensors\"}}"),
            "weight_map.w: b.safetensors is missing; fetch all files of the checkpoint");
  EXPECT_EQ(error("{\"weight_map\":{\"v\":\"a.safetensors\"}}"),
            "weight_map.v: a.safetensors has no such tensor; fetch the index and its files again");
  EXPECT_EQ(error("{\"weight_map\":{\"w\":1}}"), "weight_map.w: expected a string, found 1");
  EXPECT_EQ(error("{\"weight_map\":[]}"), "weight_map: expected an object, found an array");
  EXPECT_EQ(error("{}"), "weight_map: this key is required");
  folder.Write("model.safetensors.index.json", "{\"weight_map\":{\"w\":\"a.safetensors\"}}");
  EXPECT_EQ(ModelSafetensors(folder.path()).Names(), std::vector<std::string>{"w"});
}

}  // namespace
}  // namespace plimsoll::formats
