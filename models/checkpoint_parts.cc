#include "models/checkpoint_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "formats/foreign_files.h"
#include "models/permuted_copy.h"

namespace plimsoll::models {
namespace {

using formats::ModelSafetensors;
using formats::TensorType;

// A scalar counts as one row.
int64_t RowsOf(const ParameterInfo& parameter) {
  return parameter.shape.rank() == 0 ? 1 : parameter.shape.dim(0);
}

Part MakePart(const ParameterInfo& parameter, std::string name, int64_t first_row, int64_t rows,
              const CheckpointEntry& entry) {
  const std::span<const int64_t> dims = parameter.shape.dims();
  const int64_t all_rows = RowsOf(parameter);
  Part part = {.parameter = parameter,
               .name = std::move(name),
               .first_row = first_row,
               .rows = rows == 0 ? all_rows : rows,
               .columns = parameter.shape.elements() / all_rows,
               .shape = {dims.begin(), dims.end()},
               .order = entry.order,
               .count = entry.count,
               .leading_ones = entry.leading_ones,
               .flat = entry.flat,
               .copies = entry.copies};
  if (!entry.view.empty()) part.shape = entry.view;
  if (!dims.empty()) part.shape[0] = part.rows;
  const bool fits = (part.order.empty() || part.order.size() == part.shape.size()) &&
                    (!part.count || part.elements() == 1);
  if (!fits) {
    throw InternalError("the checkpoint table has another form for '" + parameter.name +
                        "' than the parameter");
  }
  return part;
}

// Drops the prefix if the file lacks it: checkpoints of base models store names without it.
void DropMissingPrefix(const ModelSafetensors& file, const std::string& prefix,
                       std::vector<Part>& parts) {
  for (Part& part : parts) {
    if (part.name.compare(0, prefix.size(), prefix) != 0 || file.Find(part.name)) continue;
    const std::string bare = part.name.substr(prefix.size());
    if (file.Find(bare) != nullptr) part.name = bare;
  }
}

void TakeOldNames(const ModelSafetensors& file, const CheckpointTable& table,
                  std::vector<Part>& parts) {
  for (Part& part : parts) {
    for (const auto& [end, old] : table.old_ends) {
      if (!part.name.ends_with(end) || file.Find(part.name) != nullptr) continue;
      const std::string name = part.name.substr(0, part.name.size() - end.size()) + old;
      const bool bare = name.starts_with(table.prefix) && file.Find(name) == nullptr;
      const std::string found = bare ? name.substr(table.prefix.size()) : name;
      if (file.Find(found) != nullptr) part.name = found;
      break;
    }
  }
}

// Reads a missing tied tensor under another of its names: a program that stores tied tensors once
// may keep any of them.
void TakeCopies(const ModelSafetensors& file, std::vector<Part>& parts) {
  for (Part& part : parts) {
    if (file.Find(part.name) != nullptr) continue;
    const auto copy = std::ranges::find_if(
        part.copies, [&](const std::string& name) { return file.Find(name) != nullptr; });
    if (copy != part.copies.end()) part.name = *copy;
  }
}

bool AreEqual(const ModelSafetensors& file, const std::string& one, const std::string& other) {
  const formats::TensorEntry &a = file.Require(one), &b = file.Require(other);
  if (a.shape != b.shape) return false;
  if (a.type == b.type) return std::ranges::equal(file.Raw(one), file.Raw(other));
  std::vector<float> values(static_cast<size_t>(a.elements)), others(values.size());
  file.ReadFloat32(one, values.data(), a.elements);
  file.ReadFloat32(other, others.data(), b.elements);
  return values == others;
}

// A head that differs from the embedding means that the weights are of another model than
// config.json describes.
void RequireEqualCopies(const ModelSafetensors& file, const std::vector<Part>& parts,
                        const std::string& way_out) {
  for (const Part& part : parts) {
    for (const std::string& copy : part.copies) {
      if (file.Find(copy) == nullptr || AreEqual(file, part.name, copy)) continue;
      throw UserError(fmt::format(
          "{}: tensors \"{}\" and \"{}\" differ, but config.json ties them into one; {}",
          file.path(), part.name, copy, way_out));
    }
  }
}

// Throws a UserError unless the file has the parts in their shapes, or `misfits` allows the
// difference. Counts may be missing.
Misfitting CheckShapes(const ModelSafetensors& file, const Model& model,
                       const std::vector<Part>& parts, Misfits misfits) {
  using Misfit = Model::Misfit;
  Misfitting misfitting;
  for (const Part& part : parts) {
    const formats::TensorEntry* const found = file.Find(part.name);
    if (found == nullptr && part.count) continue;
    if (found != nullptr && found->shape == part.StoredShape()) continue;
    const Misfit misfit = model.OnMisfit(part.parameter);
    const bool either = misfit == Misfit::kFittedOrFresh;
    const bool fits = misfit == Misfit::kFitted || either;
    if (fits && found != nullptr && misfits != Misfits::kRefused) {
      misfitting.fitted.insert(part.parameter.name);
      continue;
    }
    const bool fresh = misfit == Misfit::kFresh || (either && found == nullptr);
    if (fresh && misfits == Misfits::kAllowed) {
      misfitting.fresh.insert(part.parameter.name);
      continue;
    }
    throw UserError(
        fmt::format("{}: tensor \"{}\" has shape {}, but config.json asks for {}: are "
                    "the two of the same model?",
                    file.path(), part.name, formats::ShapeText(file.Require(part.name).shape),
                    formats::ShapeText(part.StoredShape())));
  }
  return misfitting;
}

void RefuseUnknown(const ModelSafetensors& file, const Model& model,
                   const std::vector<Part>& parts) {
  std::set<std::string> known;
  for (const Part& part : parts) known.insert(part.name);
  const CheckpointTable table = model.checkpoint_table();
  for (const CheckpointEntry& entry : table.entries) {
    known.insert(entry.copies.begin(), entry.copies.end());
  }
  const auto ignored = [&](std::string name) {
    for (const auto& [end, old] : table.old_ends) {
      if (name.ends_with(old)) name.replace(name.size() - old.size(), old.size(), end);
    }
    return std::ranges::any_of(table.ignored, [&](const std::string& pattern) {
      return MatchNumbers(pattern, name) || MatchNumbers(table.prefix + pattern, name);
    });
  };
  for (const std::string& name : file.Names()) {
    if (known.contains(name) || ignored(name)) continue;
    throw UserError(
        fmt::format("{}: tensor \"{}\" has no place in the {} that config.json describes: are the "
                    "two of the same model?",
                    file.path(), formats::Printable(name), model.title()));
  }
}

// Checks the types of the tensors to read: counts are I64, everything else is floating point.
void CheckTypes(const ModelSafetensors& file, const std::vector<Part>& parts,
                const Misfitting& misfitting) {
  for (const Part& part : parts) {
    const formats::TensorEntry* const found = file.Find(part.name);
    if (found == nullptr || misfitting.fresh.contains(part.parameter.name)) continue;
    if (!part.count) {
      file.Shard(part.name).RequireFloats(*found);
    } else if (found->type != TensorType::kI64) {
      throw UserError(fmt::format("{}: tensor \"{}\" is a count, but of type {}; store it as I64",
                                  file.path(), found->name, formats::TypeName(found->type)));
    }
  }
}

}  // namespace

std::vector<int64_t> Part::StoredStrides() const {
  return Ordered(StridesOf(Ordered(shape, order)), Inverse(order));
}

std::vector<Part> PartsOf(const Model& model) {
  const CheckpointTable table = model.checkpoint_table();
  std::vector<Part> parts;
  for (const ParameterInfo& parameter : model.Stored()) {
    const CheckpointRow in_files = FindRow(table, parameter.name);
    int64_t row = 0;
    for (const CheckpointTensor& tensor : in_files.entry->tensors) {
      const std::string prefix = in_files.entry->bare ? "" : table.prefix;
      parts.push_back(
          MakePart(parameter, prefix + in_files.NameOf(tensor), row, tensor.rows, *in_files.entry));
      row += parts.back().rows;
    }
    if (row != RowsOf(parameter)) {
      throw InternalError("parameter '" + parameter.name + "' is not covered by its tensors");
    }
  }
  return parts;
}

void GiveStored(const Part& part, const float* parameter,
                FunctionRef<void(std::span<const float>)> take) {
  const float* const from = parameter + part.first();
  const auto count = static_cast<size_t>(part.elements());
  if (part.order.empty()) return take({from, count});
  std::vector<float> stored(count);
  CopyPermuted<float>(from, Ordered(part.shape, part.order),
                      Ordered(StridesOf(part.shape), part.order), stored.data());
  take(stored);
}

void TakeStored(const Part& part, FunctionRef<void(float*)> read, float* parameter) {
  float* const rows = parameter + part.first();
  if (part.order.empty()) return read(rows);
  std::vector<float> stored(static_cast<size_t>(part.elements()));
  read(stored.data());
  CopyPermuted<float>(stored.data(), part.shape, part.StoredStrides(), rows);
}

OpenCheckpoint::OpenCheckpoint(const std::string& folder, const Model& of, Misfits misfits,
                               const std::set<std::string>& left_out)
    : model(of), file(folder), parts(PartsOf(of)) {
  if (const auto foreign = formats::DescribeForeignNames(file.Names())) {
    throw UserError(fmt::format("{}: {}", file.path(), *foreign));
  }
  DropMissingPrefix(file, model.checkpoint_table().prefix, parts);
  const CheckpointTable table = model.checkpoint_table();
  TakeOldNames(file, table, parts);
  TakeCopies(file, parts);
  const std::vector<Part> all = parts;
  std::erase_if(parts, [&](const Part& part) { return left_out.contains(part.parameter.name); });
  misfitting = CheckShapes(file, model, parts, misfits);
  RefuseUnknown(file, model, all);
  CheckTypes(file, parts, misfitting);
  RequireEqualCopies(file, parts, table.when_copies_differ);
}

void OpenCheckpoint::ReadStored(const Part& part, float* to) const {
  if (!part.count) return file.ReadFloat32(part.name, to, part.elements());
  const formats::TensorEntry* const found = file.Find(part.name);
  *to = found == nullptr ? 0 : static_cast<float>(ReadCount(*found));
}

void OpenCheckpoint::ReadFitted(const Part& part, float* to) const {
  const formats::TensorEntry& tensor = file.Require(part.name);
  std::vector<float> stored(static_cast<size_t>(tensor.elements));
  file.ReadFloat32(part.name, stored.data(), tensor.elements);
  try {
    model.Fit(part.parameter, tensor.shape, stored, to);
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: tensor \"{}\" {}", file.path(), part.name, error.what()));
  }
}

std::vector<ParameterInfo> OpenCheckpoint::Fresh() const {
  std::vector<ParameterInfo> fresh;
  for (const ParameterInfo& parameter : model.Stored()) {
    if (misfitting.fresh.contains(parameter.name)) fresh.push_back(parameter);
  }
  return fresh;
}

int64_t OpenCheckpoint::ReadCount(const formats::TensorEntry& tensor) const {
  int64_t count = 0;
  file.Shard(tensor.name).Read(tensor, 0, std::as_writable_bytes(std::span(&count, 1)));
  return count;
}

}  // namespace plimsoll::models
