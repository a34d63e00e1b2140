#include "model/gguf/split.h"

namespace cria {
namespace {

constexpr std::uint64_t kMaxShards = 65535;  // split.count is 16 bits wide

std::optional<std::uint64_t> find_number(const GgufShard& shard, std::string_view key) {
  const GgufValue* const value = shard.find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = as_uint(*value);
  if (!number) {
    throw Error(
        shard.path,
        "wrong type of a key: expected an unsigned integer, got " + std::string(name(value->type)),
        "key " + std::string(key));
  }
  return number;
}

std::uint64_t shard_number(const GgufShard& shard) {
  const auto number = find_number(shard, "split.no");
  if (!number) throw Error(shard.path, "shard of a split model without its number", "key split.no");
  return *number;
}

std::string five_digits(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
}

std::string ending(std::uint64_t number, std::uint64_t count) {
  return "-" + five_digits(number + 1) + "-of-" + five_digits(count) + ".gguf";
}

}  // namespace

std::string SplitPlan::path(std::uint32_t number) const { return prefix + ending(number, count); }

std::optional<SplitPlan> plan_split(const GgufShard& first) {
  const std::uint64_t count = find_number(first, "split.count").value_or(0);
  if (count <= 1) return std::nullopt;
  if (count > kMaxShards) {
    throw Error(first.path, "too many shards: expected at most 65535, got " + std::to_string(count),
                "key split.count");
  }
  if (const std::uint64_t number = shard_number(first); number != 0) {
    throw Error(first.path,
                "a later shard of a split model: expected the first one (" + ending(0, count) +
                    "), got shard " + std::to_string(number + 1) + " of " + std::to_string(count),
                "key split.no");
  }
  const std::string expected = ending(0, count);
  if (!first.path.ends_with(expected)) {
    throw Error(first.path,
                "first shard of " + std::to_string(count) + ": expected a name that ends in " +
                    expected + " to find the others by",
                "key split.count");
  }
  return SplitPlan{first.path.substr(0, first.path.size() - expected.size()),
                   static_cast<std::uint32_t>(count), find_number(first, "split.tensors.count")};
}

void check_shard(const SplitPlan& plan, const GgufShard& first, const GgufShard& shard,
                 std::uint32_t number) {
  const std::uint64_t count = find_number(shard, "split.count").value_or(0);
  if (count != plan.count) {
    throw Error(shard.path,
                "shards disagree on their count: expected " + std::to_string(plan.count) +
                    ", got " + std::to_string(count),
                "key split.count");
  }
  if (const std::uint64_t got = shard_number(shard); got != number) {
    throw Error(shard.path,
                "wrong shard under this name: expected number " + std::to_string(number) +
                    ", got " + std::to_string(got),
                "key split.no");
  }
  const auto tensors = find_number(shard, "split.tensors.count");
  if (plan.tensors && tensors && *tensors != *plan.tensors) {
    throw Error(
        shard.path,
        "shard of another model: its count of tensors differs from the first shard's: expected " +
            std::to_string(*plan.tensors) + ", got " + std::to_string(*tensors),
        "key split.tensors.count");
  }
  if (shard.version != first.version) {
    throw Error(shard.path,
                "shards disagree on the GGUF version: expected " + std::to_string(first.version) +
                    ", got " + std::to_string(shard.version),
                "at byte 4");
  }
}

void check_total(const SplitPlan& plan, const std::string& path, std::size_t tensors) {
  if (plan.tensors && *plan.tensors != tensors) {
    throw Error(path,
                "wrong number of tensors in all shards: expected " + std::to_string(*plan.tensors) +
                    ", got " + std::to_string(tensors),
                "key split.tensors.count");
  }
}

}  // namespace cria
