// Inside the room: models split into several files, "NAME-00001-of-00003.gguf" and so on.
#pragma once

#include <optional>

#include "model/gguf/parser.h"

namespace cria {

/// The family of files that a first shard belongs to.
struct SplitPlan {
  std::string prefix;                    ///< the paths up to the shard's number
  std::uint32_t count = 0;               ///< split.count
  std::optional<std::uint64_t> tensors;  ///< split.tensors.count

  /// Where shard number 0, 1, … lies.
  [[nodiscard]] std::string path(std::uint32_t number) const;
};

/// The plan if the file is the first shard of several; nullopt for an ordinary file. Error for a
/// later shard or an unexpected file name.
std::optional<SplitPlan> plan_split(const GgufShard& first);
/// Error unless the shard says that it is number `number` of the same model.
void check_shard(const SplitPlan& plan, const GgufShard& first, const GgufShard& shard,
                 std::uint32_t number);
/// Error if all shards together do not hold the number of tensors that the first announces.
void check_total(const SplitPlan& plan, const std::string& path, std::size_t tensors);

}  // namespace cria
