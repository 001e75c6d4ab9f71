#include "trainer/save_and_resume/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/amounts.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/message.h"
#include "formats/json.h"
#include "snapshots/folder.h"
#include "snapshots/snapshot.h"
#include "trainer/save_and_resume/resume.h"
#include "trainer/save_and_resume/run_record.h"
#include "trainer/save_and_resume/weight_source.h"

namespace plimsoll::trainer {
namespace {

using snapshots::TensorRecord;

int64_t BytesOf(const TensorRecord& tensor) {
  return tensor.elements() * formats::TypeBytes(tensor.type);
}

int64_t BytesOf(const snapshots::Manifest& manifest) {
  int64_t bytes = 0;
  for (const TensorRecord& tensor : manifest.tensors) bytes += BytesOf(tensor);
  return bytes;
}

void PrintTensors(const std::vector<TensorRecord>& tensors) {
  size_t width = 6;
  for (const TensorRecord& tensor : tensors) width = std::max(width, tensor.name.size());
  PrintAnswer(fmt::format("  {:<{}}  {:<5}  {:<5}  {:>10}  {:<16}  shards\n", "tensor", width,
                          "part", "type", "bytes", "shape"));
  for (const TensorRecord& tensor : tensors) {
    std::vector<int64_t> shards;
    for (const snapshots::Slice& slice : tensor.slices) shards.push_back(slice.shard);
    PrintAnswer(fmt::format(
        "  {:<{}}  {:<5}  {:<5}  {:>10}  {:<16}  {}\n", formats::Printable(tensor.name), width,
        fmt::format("{}/{}", tensor.part + 1, tensor.parts), formats::TypeName(tensor.type),
        FormatBytes(BytesOf(tensor)), formats::ShapeText(tensor.shape), fmt::join(shards, ", ")));
  }
}

void PrintSnapshot(const snapshots::Snapshot& snapshot) {
  const snapshots::Manifest& manifest = snapshot.manifest();
  const RunRecord run = ParseRunRecord(manifest.run, snapshot.path());
  PrintAnswer(fmt::format("{}: after {} and {}, written by plimsoll {}\n", snapshot.path(),
                          Counted(manifest.step, "step"), Counted(run.sequences, "sequence"),
                          manifest.program));
  std::vector<std::string> axes;
  for (const MeshAxis& axis : run.mesh.axes()) {
    axes.push_back(fmt::format("{} {}", axis.ranks, axis.name));
  }
  PrintAnswer(fmt::format("ranks: {}, ZeRO {}\n", fmt::join(axes, " × "), run.zero));
  if (run.evaluation.last >= 0) {
    PrintAnswer(fmt::format("evaluated after {}; the best {}, {:.4f}, after {}\n",
                            Counted(run.evaluation.last, "step"), run.evaluation.monitor,
                            run.evaluation.best, run.evaluation.best_step));
  }
  PrintAnswer(fmt::format("{}, {}, in {}\n", Counted(manifest.tensors.size(), "tensor"),
                          FormatBytes(BytesOf(manifest)),
                          Counted(manifest.shards.size(), "shard")));
  PrintTensors(manifest.tensors);
  snapshot.Verify();
  PrintAnswer("whole: every checksum matches\n");
}

// Prints a line for each snapshot; checks all of them before it reports the first damaged one.
void PrintAll(const snapshots::Folder& folder, const std::vector<int64_t>& steps) {
  std::string problem;
  for (const int64_t step : steps) {
    const std::string path = folder.PathOf(step);
    try {
      const snapshots::Snapshot snapshot(path);
      snapshot.Verify();
      PrintAnswer(fmt::format("{}: {}, whole\n", path, FormatBytes(BytesOf(snapshot.manifest()))));
    } catch (const UserError& error) {
      PrintAnswer(fmt::format("{}: damaged\n", path));
      if (problem.empty()) problem = error.what();
    }
  }
  if (!problem.empty()) throw UserError(problem);
}

}  // namespace

void RunInspect(const std::string& path) {
  if (!IsSnapshot(path)) {
    const snapshots::Folder folder(SnapshotsOf(path));
    const std::vector<int64_t> steps = folder.Steps();
    if (!steps.empty()) return PrintAll(folder, steps);
    if (IsRunDirectory(path)) {
      throw UserError(path +
                      ": this run has no whole snapshot (save.every says when it takes one)");
    }
    if (!Exists(path)) {
      throw UserError(path + ": there is no such folder; name a snapshot or a run directory");
    }
    throw UserError(
        fmt::format("{}: neither a snapshot ({}) nor a run directory (config.yaml){}", path,
                    snapshots::kManifestFile,
                    path.ends_with(".bin") ? "; plimsoll data inspect looks at token files" : ""));
  }
  PrintSnapshot(snapshots::Snapshot(path));
}

}  // namespace plimsoll::trainer
